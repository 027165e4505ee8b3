#include "trainer/session/checkpointed_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <unordered_set>
#include <utility>

namespace ddprun {

// Of one optimizer.
struct CheckpointedState::StateMaker {
  std::vector<NamedTensor>& tensors;
  torch::optim::Optimizer& optimizer;
  const std::string& name;  // Of the optimizer.
  std::vector<Counter> counters;
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
    tensors.push_back({name + "." + what + "." + parameter_name, tensor});
  }

  template <class ParamState>
  void Count(ParamState& counted) {
    counters.push_back({[&counted] { return counted.step(); },
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

Result<void> CheckpointedState::AddTensor(const std::string& name, const at::Tensor& tensor,
                                          bool changes_at_any_time) {
  if (name.empty()) {
    return Error{ErrorKind::kInvalid, "Keep: a tensor needs a name"};
  }
  if (!names_.insert(name).second) {
    return Error{ErrorKind::kInvalid, "Keep: there are two tensors named '" + name +
                                          "'. Give the two things that you keep different names"};
  }
  if (!tensor.defined() || !tensor.is_contiguous() || !SavedType(tensor)) {
    return Error{ErrorKind::kInvalid,
                 "Keep: '" + name +
                     "' cannot be saved. It must be a contiguous tensor of a type that "
                     "safetensors has (float64, float32, float16, bfloat16, int64, int32, uint8, "
                     "bool)"};
  }
  model_.push_back({name, tensor, changes_at_any_time});
  return {};
}

Result<void> CheckpointedState::Add(const std::string& name,
                                    const std::shared_ptr<torch::nn::Module>& module) {
  const std::string prefix = name.empty() ? "" : name + ".";
  modules_.push_back(module);
  for (const auto& item : module->named_parameters()) {
    RETURN_IF_ERROR(AddTensor(prefix + item.key(), item.value(), /*changes_at_any_time=*/false));
  }
  for (const auto& item : module->named_buffers()) {
    RETURN_IF_ERROR(AddTensor(prefix + item.key(), item.value(), /*changes_at_any_time=*/true));
  }
  return {};
}

Result<void> CheckpointedState::Add(const std::string& name, torch::optim::Optimizer& optimizer) {
  for (const std::string& other : optimizer_names_) {
    if (other == name) {
      return Error{ErrorKind::kInvalid, "Keep: there are two optimizers named '" + name + "'"};
    }
  }
  optimizers_.push_back(&optimizer);
  optimizer_names_.push_back(name);
  return {};
}

Result<void> CheckpointedState::Add(const std::string& name, const at::Tensor& tensor) {
  return AddTensor(name, tensor, /*changes_at_any_time=*/true);
}

Result<void> CheckpointedState::Close() {
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    RETURN_IF_ERROR(MakeState(optimizer_names_[i], *optimizers_[i]));
  }
  return {};
}

Result<void> CheckpointedState::MakeState(const std::string& name,
                                          torch::optim::Optimizer& optimizer) {
  StateMaker maker{.tensors = optimizer_, .optimizer = optimizer, .name = name, .counters = {}};
  std::unordered_set<const c10::TensorImpl*> seen;
  std::size_t unnamed = 0;
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      maker.parameter = &parameter;
      maker.parameter_name = NameOf(parameter);
      if (maker.parameter_name.empty()) {
        maker.parameter_name = std::to_string(unnamed++);
      }
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
        return Error{ErrorKind::kInvalid,
                     "optimizer '" + name + "' has the parameter '" + maker.parameter_name +
                         "' twice, so that each step would change it twice. Give it each parameter "
                         "once (a module with two names in its parent has its parameters twice)"};
      }
      RETURN_IF_ERROR(maker.AddParameter(group.options()));
    }
  }
  if (!maker.counters.empty()) {
    const auto count = static_cast<std::int64_t>(maker.counters.size());
    counted_.push_back({std::move(maker.counters), at::zeros({count}, at::kLong)});
    // TakeSteps changes it.
    optimizer_.push_back({name + ".step", counted_.back().steps, /*changes_at_any_time=*/true});
  }
  return {};
}

void CheckpointedState::TakeSteps() const {
  for (const Counted& counted : counted_) {
    for (std::size_t i = 0; i < counted.counters.size(); ++i) {
      counted.steps.mutable_data_ptr<std::int64_t>()[i] = counted.counters[i].take();
    }
  }
}

void CheckpointedState::GiveSteps() const {
  for (const Counted& counted : counted_) {
    for (std::size_t i = 0; i < counted.counters.size(); ++i) {
      counted.counters[i].give(counted.steps.const_data_ptr<std::int64_t>()[i]);
    }
  }
}

std::string CheckpointedState::NameOf(const at::Tensor& tensor) const {
  for (const NamedTensor& item : model_) {
    if (item.tensor.is_same(tensor)) {
      return item.name;
    }
  }
  return "";
}

std::vector<std::string> CheckpointedState::Problems(
    const std::vector<std::shared_ptr<torch::nn::Module>>& replicated) const {
  std::vector<std::string> found;
  std::set<const c10::TensorImpl*> optimized;
  const auto not_kept = [&found](const std::string& what, const at::Tensor& parameter,
                                 const std::string& where) {
    found.push_back(what + " " + ShapeText(parameter.sizes()) + where +
                    " is trained, but no checkpoint will hold it: call session.Keep for its module "
                    "or tensor");
  };
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const auto& groups = optimizers_[i]->param_groups();
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const std::vector<at::Tensor>& parameters = groups[group].params();
      for (std::size_t j = 0; j < parameters.size(); ++j) {
        optimized.insert(parameters[j].unsafeGetTensorImpl());
        if (NameOf(parameters[j]).empty()) {
          not_kept(
              "parameter " + std::to_string(j), parameters[j],
              " in group " + std::to_string(group) + " of optimizer '" + optimizer_names_[i] + "'");
        }
      }
    }
  }
  std::size_t without_optimizer = 0;
  for (const std::shared_ptr<torch::nn::Module>& module : replicated) {
    for (const auto& item : module->named_parameters()) {
      if (!item.value().requires_grad() || optimized.contains(item.value().unsafeGetTensorImpl())) {
        continue;
      }
      ++without_optimizer;
      if (NameOf(item.value()).empty()) {
        not_kept("parameter '" + item.key() + "'", item.value(), " of a replicated module");
      }
    }
  }
  if (without_optimizer > 0) {
    found.push_back("no kept optimizer trains " + std::to_string(without_optimizer) +
                    " of the replicated parameters. If an optimizer does, call session.Keep for "
                    "it: else its state is lost at a restart");
  }
  return found;
}

}  // namespace ddprun
