// How much the loss is scaled up so that float16 gradients neither vanish nor overflow.
//
// Pure: what PyTorch's GradScaler does, with its constants. All ranks see the same averaged
// gradients, so they decide alike without asking each other.
#pragma once

#include <algorithm>

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

}  // namespace ddprun
