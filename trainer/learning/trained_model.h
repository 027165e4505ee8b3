// A model where it is computed: moved to its devices, some of its parameters frozen, its forward in
// the precision that was asked for.
//
// Knows no loss and no optimizer. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/device/choose_device.h"
#include "trainer/learning/named_tensor.h"
#include "trainer/models/torch_model.h"
#include "trainer/options/learning_options.h"
#include "trainer/options/run_options.h"

namespace ddprun {

at::Device TorchDevice(const Device& device);

class TrainedModel {
 public:
  // As --split-devices and --freeze say.
  TrainedModel(std::shared_ptr<TorchModel> model, at::Device device, const RunOptions& run,
               Precision precision);

  // Whether its parts could be put where they were to be.
  const Result<void>& placed() const { return placed_; }

  // Those that are trained.
  const std::vector<std::string>& names() const { return model_->names; }
  const std::vector<at::Tensor>& parameters() const { return model_->parameters; }
  // TorchModel::linear_layers, all of them trained, in float32 on the CPU.
  bool IsPlainLinear() const;
  // float32 and where the input is, whatever it was computed in and wherever.
  at::Tensor Output(const std::vector<at::Tensor>& inputs, bool training) const;

  void ForgetGradients();
  // kInvalid: a parameter has none; the message names it.
  Result<std::vector<at::Tensor>> Gradients() const;

  // Parameters, buffers, and what is frozen.
  std::vector<NamedTensor> State() const;

 private:
  const std::shared_ptr<TorchModel> model_;
  const Result<void> placed_;
  const Precision precision_;
  const at::Device device_;
};

}  // namespace ddprun
