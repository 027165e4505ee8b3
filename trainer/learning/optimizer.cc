#include "trainer/learning/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <string>
#include <utility>

namespace ddprun {

at::Tensor ClipNorm(const std::vector<at::Tensor>& gradients, double most) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms = at::_foreach_norm(gradients);
  for (at::Tensor& norm : norms) {
    norm = norm.to(norms[0].device());
  }
  at::Tensor norm = at::stack(norms).norm();
  if (most > 0) {
    const at::Tensor factor = at::clamp_max(most / (norm + 1e-6), 1.0);
    std::map<std::string, std::vector<at::Tensor>> devices;  // A factor serves those of its own.
    for (const at::Tensor& gradient : gradients) {
      devices[gradient.device().str()].push_back(gradient);
    }
    for (const auto& [name, there] : devices) {
      at::_foreach_mul_(there, factor.to(there[0].device()));
    }
  }
  return norm;
}

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<std::string>& names,
                     const std::vector<at::Tensor>& parameters)
    : options_(options), steps_(at::zeros({}, at::kLong)) {
  state_.push_back({"step", steps_});
  const bool adam = options.kind != OptimizerKind::kSgd;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Group& group = GroupOf(parameters[i]);
    group.places.push_back(i);
    group.parameters.push_back(parameters[i]);
    group.every_steps.push_back(group.float_steps);
    if (adam || options.momentum != 0) {
      group.first.push_back(at::zeros_like(parameters[i]));
      state_.push_back({(adam ? "exp_avg." : "momentum_buffer.") + names[i], group.first.back()});
    }
    if (adam) {
      group.second.push_back(at::zeros_like(parameters[i]));
      state_.push_back({"exp_avg_sq." + names[i], group.second.back()});
    }
  }
}

Optimizer::Group& Optimizer::GroupOf(const at::Tensor& parameter) {
  for (Group& group : groups_) {
    if (group.float_steps.device() == parameter.device()) {
      return group;
    }
  }
  Group& added = groups_.emplace_back();
  added.float_steps = at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false));
  return added;
}

void Optimizer::Step(const std::vector<at::Tensor>& gradients, double lr) {
  const at::NoGradGuard no_grad;
  const std::int64_t step = ++*steps_.mutable_data_ptr<std::int64_t>();
  for (Group& group : groups_) {
    std::vector<at::Tensor> own;
    own.reserve(group.places.size());
    for (const std::size_t place : group.places) {
      own.push_back(gradients[place]);
    }
    Update(group, own, lr, step);
  }
}

void Optimizer::Update(Group& group, const std::vector<at::Tensor>& gradients, double lr,
                       std::int64_t step) const {
  group.float_steps.fill_(step);
  switch (options_.kind) {
    case OptimizerKind::kAdam:
      at::_fused_adam_(group.parameters, gradients, group.first, group.second, {},
                       group.every_steps, lr, options_.beta1, options_.beta2, options_.weight_decay,
                       options_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
      return;
    case OptimizerKind::kAdamW:
      at::_fused_adamw_(group.parameters, gradients, group.first, group.second, {},
                        group.every_steps, lr, options_.beta1, options_.beta2,
                        options_.weight_decay, options_.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false);
      return;
    case OptimizerKind::kSgd:
      at::_fused_sgd_(group.parameters, gradients, group.first, options_.weight_decay,
                      options_.momentum, lr, /*dampening=*/0, options_.nesterov,
                      /*maximize=*/false, /*is_first_step=*/step == 1);
      return;
  }
}

}  // namespace ddprun
