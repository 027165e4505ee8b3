// The step of a torch::optim optimizer by libtorch's fused kernels: one call for all its
// parameters, where step() makes up to ten small ones for each of them.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <unordered_map>

namespace ddprun {

class FusedStep {
 public:
  // Adam, AdamW and SGD whose state was made before (CheckpointedState), on dense parameters of one
  // type and device for each group; others take their own step(). The state is the same as
  // step()'s, and the two may alternate; numbers differ by rounding.
  void Take(torch::optim::Optimizer& optimizer);

 private:
  struct Operands;
  // Of the kernels: a number of steps on the parameter's device.
  struct Count {
    at::Tensor on_device;
    std::int64_t steps = 0;
  };

  template <class State>
  bool GatherAdam(State& state, bool amsgrad, Operands& operands) const;
  bool Gather(torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamGroup& group,
              Operands& operands) const;
  void CountStep(Operands& operands);

  std::unordered_map<const c10::TensorImpl*, Count> counts_;
};

}  // namespace ddprun
