#include "trainer/session/fused_step.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <tuple>
#include <typeinfo>
#include <vector>

namespace ddprun {

// Of one parameter group: those of its parameters that have a gradient.
struct FusedStep::Operands {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> first;                     // Adam's exp_avg, SGD's momentum buffer.
  std::vector<at::Tensor> second;                    // exp_avg_sq.
  std::vector<at::Tensor> most;                      // max_exp_avg_sq.
  std::vector<std::function<std::int64_t()>> count;  // One more step of the parameter's state.
  std::vector<at::Tensor> steps;
  std::function<void(Operands&)> update;
};

namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamParamState;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;
using torch::optim::SGDOptions;
using torch::optim::SGDParamState;

bool Dense(const at::Tensor& tensor, const at::Tensor& like) {
  return tensor.layout() == at::kStrided && tensor.dtype() == like.dtype() &&
         tensor.device() == like.device() && tensor.sizes() == like.sizes();
}

}  // namespace

template <class State>
bool FusedStep::GatherAdam(State& state, bool amsgrad, Operands& operands) const {
  if (!state.exp_avg().defined() || !state.exp_avg_sq().defined() ||
      (amsgrad && !state.max_exp_avg_sq().defined())) {
    return false;
  }
  operands.first.push_back(state.exp_avg());
  operands.second.push_back(state.exp_avg_sq());
  if (amsgrad) {
    operands.most.push_back(state.max_exp_avg_sq());
  }
  operands.count.emplace_back([&state] {
    state.step(state.step() + 1);
    return state.step();
  });
  return true;
}

bool FusedStep::Gather(torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamGroup& group,
                       Operands& operands) const {
  auto& options = group.options();
  const auto* const adam = dynamic_cast<const AdamOptions*>(&options);
  const auto* const adamw = dynamic_cast<const AdamWOptions*>(&options);
  const auto* const sgd = dynamic_cast<const SGDOptions*>(&options);
  for (const at::Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) {
      continue;
    }
    const at::Tensor& like = operands.parameters.empty() ? parameter : operands.parameters[0];
    if (parameter.layout() != at::kStrided || !parameter.is_floating_point() ||
        parameter.dtype() != like.dtype() || parameter.device() != like.device() ||
        !Dense(parameter.grad(), parameter)) {
      return false;
    }
    operands.parameters.push_back(parameter);
    operands.gradients.push_back(parameter.grad());
    if (sgd != nullptr && sgd->momentum() == 0) {
      continue;
    }
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) {
      return false;
    }
    auto* const state = found->second.get();
    if (adam != nullptr) {
      if (!GatherAdam(static_cast<AdamParamState&>(*state), adam->amsgrad(), operands)) {
        return false;
      }
    } else if (adamw != nullptr) {
      if (!GatherAdam(static_cast<AdamWParamState&>(*state), adamw->amsgrad(), operands)) {
        return false;
      }
    } else {
      operands.first.push_back(static_cast<SGDParamState&>(*state).momentum_buffer());
      if (!operands.first.back().defined() || sgd->dampening() != 0) {
        return false;
      }
    }
  }
  if (adam != nullptr) {
    operands.update = [adam](Operands& with) {
      at::_fused_adam_(with.parameters, with.gradients, with.first, with.second, with.most,
                       with.steps, adam->lr(), std::get<0>(adam->betas()),
                       std::get<1>(adam->betas()), adam->weight_decay(), adam->eps(),
                       adam->amsgrad(), /*maximize=*/false);
    };
  } else if (adamw != nullptr) {
    operands.update = [adamw](Operands& with) {
      at::_fused_adamw_(with.parameters, with.gradients, with.first, with.second, with.most,
                        with.steps, adamw->lr(), std::get<0>(adamw->betas()),
                        std::get<1>(adamw->betas()), adamw->weight_decay(), adamw->eps(),
                        adamw->amsgrad(), /*maximize=*/false);
    };
  } else {
    operands.update = [sgd](Operands& with) {  // With a buffer of zeros no step is a first one.
      at::_fused_sgd_(with.parameters, with.gradients, with.first, sgd->weight_decay(),
                      sgd->momentum(), sgd->lr(), /*dampening=*/0, sgd->nesterov(),
                      /*maximize=*/false, /*is_first_step=*/false);
    };
  }
  return true;
}

void FusedStep::CountStep(Operands& operands) {
  std::vector<at::Tensor> on_device;
  for (std::size_t i = 0; i < operands.count.size(); ++i) {
    const at::Tensor& parameter = operands.parameters[i];
    Count& count = counts_[parameter.unsafeGetTensorImpl()];
    if (!count.on_device.defined()) {
      count.on_device = at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false));
    }
    const std::int64_t steps = operands.count[i]();
    if (count.on_device.is_cpu()) {
      *count.on_device.mutable_data_ptr<float>() = static_cast<float>(steps);
    } else if (count.steps + 1 == steps) {
      on_device.push_back(count.on_device);
    } else {  // The first one here, or a checkpoint or step() changed the number.
      count.on_device.fill_(steps);
    }
    count.steps = steps;
    operands.steps.push_back(count.on_device);
  }
  if (!on_device.empty()) {
    at::_foreach_add_(on_device, 1);
  }
}

void FusedStep::Take(torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  std::vector<Operands> groups;
  const std::type_info& kind =
      typeid(optimizer);  // A class derived from one has a step of its own.
  if (kind != typeid(torch::optim::Adam) && kind != typeid(torch::optim::AdamW) &&
      kind != typeid(torch::optim::SGD)) {
    optimizer.step();
    return;
  }
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    if (!Gather(optimizer, group, groups.emplace_back())) {
      optimizer.step();
      return;
    }
  }
  for (Operands& operands : groups) {
    if (!operands.parameters.empty()) {
      CountStep(operands);
      operands.update(operands);
    }
  }
}

}  // namespace ddprun
