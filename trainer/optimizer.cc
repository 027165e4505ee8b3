#include "trainer/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace ddprun {

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<std::string>& names,
                     std::vector<at::Tensor> parameters)
    : options_(options),
      parameters_(std::move(parameters)),
      steps_(at::zeros({}, at::kLong)),
      float_steps_(at::zeros({}, at::kFloat)) {
  state_.push_back({"step", steps_});
  const bool adam = options.kind != OptimizerKind::kSgd;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    every_steps_.push_back(float_steps_);
    if (adam || options.momentum != 0) {
      first_.push_back(at::zeros_like(parameters_[i]));
      state_.push_back({(adam ? "exp_avg." : "momentum_buffer.") + names[i], first_.back()});
    }
    if (adam) {
      second_.push_back(at::zeros_like(parameters_[i]));
      state_.push_back({"exp_avg_sq." + names[i], second_.back()});
    }
  }
}

void Optimizer::Step(const std::vector<at::Tensor>& gradients, double lr) {
  const at::NoGradGuard no_grad;
  const std::int64_t step = ++*steps_.mutable_data_ptr<std::int64_t>();
  float_steps_.fill_(step);
  switch (options_.kind) {
    case OptimizerKind::kAdam:
      at::_fused_adam_(parameters_, gradients, first_, second_, {}, every_steps_, lr,
                       options_.beta1, options_.beta2, options_.weight_decay, options_.epsilon,
                       /*amsgrad=*/false, /*maximize=*/false);
      return;
    case OptimizerKind::kAdamW:
      at::_fused_adamw_(parameters_, gradients, first_, second_, {}, every_steps_, lr,
                        options_.beta1, options_.beta2, options_.weight_decay, options_.epsilon,
                        /*amsgrad=*/false, /*maximize=*/false);
      return;
    case OptimizerKind::kSgd:
      at::_fused_sgd_(parameters_, gradients, first_, options_.weight_decay, options_.momentum, lr,
                      /*dampening=*/0, options_.nesterov, /*maximize=*/false,
                      /*is_first_step=*/step == 1);
      return;
  }
}

}  // namespace ddprun
