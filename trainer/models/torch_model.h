// A model as libtorch sees it. Included only by files that see libtorch anyway.
//
// A model must be deterministic given the default generator, which the learner seeds before every
// step. Parameters are float32 and contiguous, and every one takes part in every forward. Buffers
// (running statistics) may be of any type; those that count are rank 0's: saved from there, sent
// to all ranks at the start and before each evaluation.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct TorchModel {
  std::vector<std::string> names;  // As module.state_dict() names them in Python.
  std::vector<at::Tensor> parameters;
  std::vector<std::string> buffer_names;
  std::vector<at::Tensor> buffers;
  // Parameters that are not trained (--freeze): a part of the model that nothing ever changes.
  std::vector<std::string> frozen_names;
  std::vector<at::Tensor> frozen;
  // Of each parameter, which part of the model it is in, from 0, if that can be spread over devices
  // (--split-devices): forward then takes what it works on to where the next part's parameters are.
  std::vector<std::size_t> parts;
  // `forward` is linear layers with ReLU between them, whose weights and biases are `parameters`.
  bool linear_layers = false;
  // `inputs` are the task's, each with the samples as first dimension: zero samples are fine. The
  // result is [samples, classes] or of the targets' shape.
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs, bool training)> forward;
};

}  // namespace ddprun
