#include "trainer/session/checkpointed_state.h"

#include <utility>

namespace ddprun {

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
    std::size_t unnamed = 0;
    ASSIGN_OR_RETURN(
        OptimizerState state,
        OptimizerState::Of(optimizer_names_[i], *optimizers_[i], [&](const at::Tensor& parameter) {
          const std::string name = NameOf(parameter);
          return name.empty() ? std::to_string(unnamed++) : name;
        }));
    optimizer_.insert(optimizer_.end(), state.tensors().begin(), state.tensors().end());
    states_.push_back(std::move(state));
  }
  return {};
}

void CheckpointedState::TakeSteps() const {
  for (const OptimizerState& state : states_) {
    state.TakeSteps();
  }
}

void CheckpointedState::GiveSteps() const {
  for (const OptimizerState& state : states_) {
    state.GiveSteps();
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
