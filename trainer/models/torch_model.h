// What a model is to libtorch. Included only by files that see libtorch anyway.
//
// A model must be deterministic given the default generator, which the learner seeds before every
// step; parameters are float32, and every one takes part in every forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct TorchModel {
  std::vector<std::string> names;  // As module.state_dict() names them in Python.
  std::vector<at::Tensor> parameters;
  // [samples, inputs] -> logits [samples, outputs]; zero samples are fine.
  std::function<at::Tensor(const std::vector<at::Tensor>& parameters, const at::Tensor& inputs)>
      forward;
};

}  // namespace ddprun
