// The scale of the loss for float16 gradients (loss_scaler.h), as a tensor that a snapshot holds;
// of other precisions it is one, and nothing is scaled.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/learning/optimizer.h"
#include "trainer/options/learning_options.h"

namespace ddprun {

class GradientScale {
 public:
  static constexpr const char* kName = "loss_scale";

  GradientScale(Precision precision, at::Device device);

  // Whether anything is scaled.
  bool on() const { return on_; }
  // What the loss is multiplied by.
  double factor() const;
  // Takes it out of the gradients again, and decides on the next one. False: they are no numbers to
  // learn from. Asks the device, once per step.
  bool Unscale(const std::vector<at::Tensor>& gradients);

  // Part of the optimizer's state in a snapshot; none where nothing is scaled.
  std::vector<NamedTensor> state() const;

 private:
  const bool on_;
  const at::Device device_;
  at::Tensor numbers_;  // LossScale's, on the CPU.
};

}  // namespace ddprun
