#include "trainer/session/optimizer_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <unordered_set>
#include <utility>

namespace ddprun {

struct OptimizerState::Maker {
  OptimizerState state;
  torch::optim::Optimizer& optimizer;
  std::string name;  // Of the optimizer.
  const at::Tensor* parameter = nullptr;
  std::string parameter_name;

  template <class ParamState>
  ParamState& StateOfParameter() {
    std::unique_ptr<torch::optim::OptimizerParamState>& slot =
        optimizer.state()[parameter->unsafeGetTensorImpl()];
    if (!slot) {
      slot = std::make_unique<ParamState>();
    }
    return static_cast<ParamState&>(*slot);
  }

  // A tensor like the parameter, which the optimizer finds in its state.
  void Add(at::Tensor& tensor, const char* what) {
    if (!tensor.defined()) {
      tensor = at::zeros_like(*parameter);
    }
    state.tensors_.push_back({name + "." + what + "." + parameter_name, tensor});
  }

  template <class ParamState>
  void Count(ParamState& counted) {
    state.counters_.push_back({[&counted] { return counted.step(); },
                               [&counted](std::int64_t step) { counted.step(step); }});
  }

  template <class ParamState>
  void AddAdam(bool amsgrad) {
    auto& adam = StateOfParameter<ParamState>();
    Add(adam.exp_avg(), "exp_avg");
    Add(adam.exp_avg_sq(), "exp_avg_sq");
    if (amsgrad) {
      Add(adam.max_exp_avg_sq(), "max_exp_avg_sq");
    }
    Count(adam);
  }

  Result<void> AddParameter(const torch::optim::OptimizerOptions& options) {
    using namespace torch::optim;
    if (const auto* const adam = dynamic_cast<const AdamOptions*>(&options)) {
      AddAdam<AdamParamState>(adam->amsgrad());
    } else if (const auto* const adamw = dynamic_cast<const AdamWOptions*>(&options)) {
      AddAdam<AdamWParamState>(adamw->amsgrad());
    } else if (const auto* const sgd = dynamic_cast<const SGDOptions*>(&options)) {
      if (sgd->momentum() != 0 && sgd->dampening() != 0) {
        return Error{ErrorKind::kInvalid,
                     "optimizer '" + name +
                         "': SGD with dampening treats its first step apart, which a resumed "
                         "training could not repeat. Use momentum without dampening"};
      }
      if (sgd->momentum() != 0) {
        Add(StateOfParameter<SGDParamState>().momentum_buffer(), "momentum_buffer");
      }
    } else if (const auto* const rms = dynamic_cast<const RMSpropOptions*>(&options)) {
      auto& rms_state = StateOfParameter<RMSpropParamState>();
      Add(rms_state.square_avg(), "square_avg");
      if (rms->momentum() > 0) {
        Add(rms_state.momentum_buffer(), "momentum_buffer");
      }
      if (rms->centered()) {
        Add(rms_state.grad_avg(), "grad_avg");
      }
      Count(rms_state);
    } else if (dynamic_cast<const AdagradOptions*>(&options) != nullptr) {
      auto& adagrad = StateOfParameter<AdagradParamState>();  // Made by its constructor.
      Add(adagrad.sum(), "sum");
      Count(adagrad);
    } else {
      return Error{ErrorKind::kInvalid,
                   "optimizer '" + name +
                       "' cannot be kept: its state is unknown. Adam, AdamW, SGD, RMSprop and "
                       "Adagrad can"};
    }
    return {};
  }
};

Result<OptimizerState> OptimizerState::Of(
    const std::string& name, torch::optim::Optimizer& optimizer,
    const std::function<std::string(const at::Tensor&)>& name_of) {
  Maker maker{.state = {}, .optimizer = optimizer, .name = name};
  std::unordered_set<const c10::TensorImpl*> seen;
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      maker.parameter = &parameter;
      maker.parameter_name = name_of(parameter);
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
        return Error{ErrorKind::kInvalid,
                     "optimizer '" + name + "' has the parameter '" + maker.parameter_name +
                         "' twice, so that each step would change it twice. Give it each parameter "
                         "once (a module with two names in its parent has its parameters twice)"};
      }
      RETURN_IF_ERROR(maker.AddParameter(group.options()));
    }
  }
  OptimizerState& state = maker.state;
  if (!state.counters_.empty()) {
    state.steps_ = at::zeros({static_cast<std::int64_t>(state.counters_.size())}, at::kLong);
    // TakeSteps changes it.
    state.tensors_.push_back({name + ".step", state.steps_, /*changes_at_any_time=*/true});
  }
  return std::move(state);
}

void OptimizerState::TakeSteps() const {
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    steps_.mutable_data_ptr<std::int64_t>()[i] = counters_[i].take();
  }
}

void OptimizerState::GiveSteps() const {
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    counters_[i].give(steps_.const_data_ptr<std::int64_t>()[i]);
  }
}

}  // namespace ddprun
