// One optimizer's state and its update, by libtorch's fused kernels.
//
// The state has a fixed list of named tensors, so that a checkpoint can hold all of it. Decides
// nothing about learning rates. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/learning/named_tensor.h"
#include "trainer/options/learning_options.h"

namespace ddprun {

// As torch.nn.utils.clip_grad_norm_: the norm over all gradients, which are scaled down to `most`
// if it is larger; 0: only measured.
at::Tensor ClipNorm(const std::vector<at::Tensor>& gradients, double most);

class Optimizer {
 public:
  // `names` and `parameters` go together; the tensors are updated in place.
  Optimizer(const OptimizerOptions& options, const std::vector<std::string>& names,
            const std::vector<at::Tensor>& parameters);

  // A step is these two calls. Begin counts it, on the host, and tells the devices the rate.
  void Begin(double lr);
  // The update by one gradient for each parameter. On a GPU it reads all that differs from step to
  // step from the GPU's memory, so it may be recorded in a graph, once for many steps.
  // Small models are updated in pieces where that costs the host nothing: a graph, `recorded`.
  void Apply(const std::vector<at::Tensor>& gradients, bool recorded = false);

  // Steps taken.
  std::int64_t steps() const { return *steps_.const_data_ptr<std::int64_t>(); }

  // `step`, and exp_avg.NAME and exp_avg_sq.NAME (Adam, AdamW) or momentum_buffer.NAME (SGD with
  // momentum).
  const std::vector<NamedTensor>& state() const { return state_; }

 private:
  // What is on one device: a kernel wants no other.
  struct Group {
    std::vector<std::size_t> places;  // Among all parameters.
    std::vector<at::Tensor> parameters;
    at::Tensor float_steps;               // The steps, as Adam's kernel wants it; Apply counts it.
    std::vector<at::Tensor> every_steps;  // float_steps once for each parameter, for the kernel.
    std::int64_t counted = 0;             // The value of float_steps after the step that has begun.
    at::Tensor rate;                      // The learning rate in a GPU's memory, float32.
    double lr = 0;                        // The learning rate, as it was given.
    std::vector<at::Tensor> first;        // exp_avg or momentum_buffer
    std::vector<at::Tensor> second;       // exp_avg_sq
  };
  Group& GroupOf(const at::Tensor& parameter);
  // The same numbers as more and smaller tensors; none where that gains nothing.
  static std::optional<Group> InPieces(const Group& group, std::vector<at::Tensor>& gradients);
  // `lr`: a number on the CPU, which keeps all of its digits, or a tensor on a GPU.
  template <class Rate>
  void Update(const Group& group, const std::vector<at::Tensor>& gradients, const Rate& lr) const;

  const OptimizerOptions options_;
  at::Tensor steps_;
  std::vector<Group> groups_;
  std::vector<NamedTensor> state_;
};

}  // namespace ddprun
