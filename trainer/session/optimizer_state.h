// The state of one of libtorch's optimizers as named tensors, so that a checkpoint can hold it.
//
// libtorch makes that state in the first step(); here it is made before, with the values that
// step() would give it. Included only by files that see libtorch anyway.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/learning/named_tensor.h"

namespace ddprun {

class OptimizerState {
 public:
  // The optimizer outlives it. `name_of` gives the name of a parameter. kInvalid: an optimizer
  // whose state is unknown here, or which depends on whether there was a step.
  static Result<OptimizerState> Of(const std::string& name, torch::optim::Optimizer& optimizer,
                                   const std::function<std::string(const at::Tensor&)>& name_of);

  // Tensors of the optimizer, and one with the number of steps of each parameter.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

  // The optimizer counts its steps in numbers of its own: to the tensor, and back.
  void TakeSteps() const;
  void GiveSteps() const;

 private:
  struct Counter {
    std::function<std::int64_t()> take;
    std::function<void(std::int64_t)> give;
  };
  struct Maker;

  std::vector<NamedTensor> tensors_;
  std::vector<Counter> counters_;  // In the order of `steps_`.
  at::Tensor steps_;
};

}  // namespace ddprun
