// One optimizer's state and its update, by libtorch's fused kernels.
//
// The state has a fixed list of named tensors, so that a checkpoint can hold all of it. Decides
// nothing about learning rates. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/optimizer_options.h"

namespace ddprun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // Shares its memory with the owner.
};

class Optimizer {
 public:
  // `names` and `parameters` go together; the tensors are updated in place.
  Optimizer(const OptimizerOptions& options, const std::vector<std::string>& names,
            std::vector<at::Tensor> parameters);

  // One gradient for each parameter.
  void Step(const std::vector<at::Tensor>& gradients, double lr);

  // Steps taken.
  std::int64_t steps() const { return *steps_.const_data_ptr<std::int64_t>(); }

  // `step`, and exp_avg.NAME and exp_avg_sq.NAME (Adam, AdamW) or momentum_buffer.NAME (SGD with
  // momentum).
  const std::vector<NamedTensor>& state() const { return state_; }

 private:
  const OptimizerOptions options_;
  const std::vector<at::Tensor> parameters_;
  at::Tensor steps_;
  at::Tensor float_steps_;               // As Adam's kernel wants it,
  std::vector<at::Tensor> every_steps_;  // once per parameter.
  std::vector<at::Tensor> first_;        // exp_avg or momentum_buffer
  std::vector<at::Tensor> second_;       // exp_avg_sq
  std::vector<NamedTensor> state_;
};

}  // namespace ddprun
