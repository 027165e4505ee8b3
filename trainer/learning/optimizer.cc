#include "trainer/learning/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <optional>
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
      // Zeros are right where a checkpoint lacks them: it was made without momentum.
      state_.push_back({(adam ? "exp_avg." : "momentum_buffer.") + names[i], group.first.back(),
                        /*changes_at_any_time=*/false, /*may_be_missing=*/!adam});
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
  added.rate = at::zeros_like(added.float_steps);
  return added;
}

void Optimizer::Begin(double lr) {
  const at::NoGradGuard no_grad;
  const std::int64_t step = ++*steps_.mutable_data_ptr<std::int64_t>();
  for (Group& group : groups_) {
    if (group.counted + 1 != step) {  // A checkpoint has set the number.
      group.float_steps.fill_(step - 1);
    }
    group.counted = step;
    if (group.lr != lr && !group.rate.is_cpu()) {
      group.rate.fill_(lr);
    }
    group.lr = lr;
  }
}

// libtorch's fused kernels give each thread block of a GPU 65536 numbers of one tensor. A model of
// a few such chunks would keep most of the GPU idle for 18 us (MLP on an H200), so it is cut into
// tensors of its tensors. The numbers stay the same: each is updated by itself.
std::optional<Optimizer::Group> Optimizer::InPieces(const Group& group,
                                                    std::vector<at::Tensor>& gradients) {
  constexpr std::int64_t kChunk = 65536;
  constexpr std::int64_t kPieces = 24;     // With a rest of each tensor they are one kernel's 36.
  constexpr std::int64_t kAlignment = 64;  // Numbers; kernels load four at a time.
  std::int64_t numbers = 0;
  bool whole = true;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    numbers += gradients[i].numel();
    whole = whole && gradients[i].is_contiguous() && group.parameters[i].is_contiguous();
  }
  const std::int64_t piece = (numbers / kPieces / kAlignment + 1) * kAlignment;
  if (!whole || numbers > kPieces * kChunk) {
    return std::nullopt;
  }
  Group pieces;
  pieces.float_steps = group.float_steps;
  pieces.rate = group.rate;
  const auto cut = [piece](const at::Tensor& from, std::vector<at::Tensor>& to) {
    for (const at::Tensor& part : from.view({-1}).split(piece)) {
      to.push_back(part);
    }
  };
  std::vector<at::Tensor> cut_gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    cut(gradients[i], cut_gradients);
    cut(group.parameters[i], pieces.parameters);
    if (!group.first.empty()) {
      cut(group.first[i], pieces.first);
    }
    if (!group.second.empty()) {
      cut(group.second[i], pieces.second);
    }
  }
  pieces.every_steps.assign(cut_gradients.size(), pieces.float_steps);
  gradients = std::move(cut_gradients);
  return pieces;
}

void Optimizer::Apply(const std::vector<at::Tensor>& gradients, bool recorded) {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    std::vector<at::Tensor> own;
    own.reserve(group.places.size());
    for (const std::size_t place : group.places) {
      own.push_back(gradients[place]);
    }
    group.float_steps.add_(1);
    std::optional<Group> pieces;
    if (recorded) {
      pieces = InPieces(group, own);
    }
    const Group& updated = pieces ? *pieces : group;
    if (group.rate.is_cpu()) {
      Update(updated, own, group.lr);
    } else {
      Update(updated, own, group.rate);
    }
  }
}

template <class Rate>
void Optimizer::Update(const Group& group, const std::vector<at::Tensor>& gradients,
                       const Rate& lr) const {
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
                      /*maximize=*/false,
                      /*is_first_step=*/options_.momentum != 0 && steps() == 1);
      return;
  }
}

}  // namespace ddprun
