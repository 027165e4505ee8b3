// Makes a TorchModel of a torch::nn module of libtorch's C++ frontend.
//
// The frontend names parameters and buffers as Python does, so a module built like the Python one
// has the same state_dict. Seeds the default generator, from which modules initialise themselves.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "trainer/models/torch_model.h"

namespace ddprun {

inline void SeedInitialisation(std::uint64_t seed) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard<std::mutex> lock(random.mutex());
  at::check_generator<at::CPUGeneratorImpl>(random)->set_current_seed(seed);
}

// `Module` is a module holder such as torch::nn::Sequential; `forward(module, inputs)` gives the
// output.
template <class Module, class Forward>
std::shared_ptr<TorchModel> FromModule(Module module, Forward forward) {
  auto model = std::make_shared<TorchModel>();
  for (const auto& item : module->named_parameters()) {
    model->names.push_back(item.key());
    model->parameters.push_back(item.value());
  }
  for (const auto& item : module->named_buffers()) {
    model->buffer_names.push_back(item.key());
    model->buffers.push_back(item.value());
  }
  model->forward = [module, forward = std::move(forward)](const std::vector<at::Tensor>& inputs,
                                                          bool training) mutable {
    if (module->is_training() != training) {
      module->train(training);
    }
    return forward(module, inputs);
  };
  return model;
}

}  // namespace ddprun
