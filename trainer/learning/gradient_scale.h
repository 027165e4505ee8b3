// How much the loss is scaled up so that float16 gradients neither vanish nor overflow.
//
// As PyTorch's GradScaler, with its constants. All ranks see the same averaged gradients, so
// they decide alike without asking each other. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

#include "trainer/learning/named_tensor.h"

namespace ddprun {

struct LossScale {
  double scale = 65536;
  double good_steps = 0;  // Since it last changed.
  bool operator==(const LossScale&) const = default;
};

// After a step whose gradients did or did not overflow.
constexpr LossScale Next(const LossScale& now, bool overflowed) {
  constexpr double kGrowAfter = 2000;
  constexpr double kLeast = 1.0 / 65536;  // PyTorch's goes on to zero, which would train nothing.
  if (overflowed) {
    return {std::max(now.scale / 2, kLeast), 0};
  }
  if (now.good_steps + 1 < kGrowAfter) {
    return {now.scale, now.good_steps + 1};
  }
  const double twice = now.scale * 2;
  return {twice < 1e38 ? twice : now.scale, 0};  // As PyTorch: unless it leaves float32.
}

// That scale as a tensor that a snapshot holds.
class GradientScale {
 public:
  explicit GradientScale(at::Device device);

  // What the loss is multiplied by.
  double factor() const { return *numbers_.const_data_ptr<double>(); }
  // Takes it out of the gradients again, and decides on the next one. False: they are no numbers to
  // learn from. Asks the device, once per step.
  bool Unscale(const std::vector<at::Tensor>& gradients);

  // Part of the optimizer's state in a snapshot.
  NamedTensor state() const { return {"loss_scale", numbers_, false, /*may_be_missing=*/true}; }

 private:
  const at::Device device_;
  at::Tensor numbers_;  // LossScale's, on the CPU.
};

}  // namespace ddprun
