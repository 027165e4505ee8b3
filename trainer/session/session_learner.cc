#include "trainer/session/session_learner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "trainer/group/torch_group.h"
#include "trainer/learning/trained_model.h"
#include "trainer/profiler/recorder.h"

namespace ddprun {
namespace {

using Leaves = std::unordered_map<const c10::TensorImpl*, at::Tensor>;

// Leaves of the graph behind `loss`.
Leaves LeavesOf(const at::Tensor& loss) {
  Leaves leaves;
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) {
      open.push_back(node);
    }
  };
  visit(loss.grad_fn().get());
  while (!open.empty()) {
    torch::autograd::Node& node = *open.back();
    open.pop_back();
    if (const auto* const leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(&node)) {
      leaves.emplace(leaf->variable.unsafeGetTensorImpl(), leaf->variable);
    }
    for (const torch::autograd::Edge& edge : node.next_edges()) {
      visit(edge.function.get());
    }
  }
  return leaves;
}

// The part of `all` that is about the parameters [first, first + count), counted from 0.
Buckets PartOfBuckets(const Buckets& all, std::size_t first, std::size_t count) {
  Buckets part;
  for (const std::vector<std::size_t>& bucket : all) {
    std::vector<std::size_t> own;
    for (const std::size_t index : bucket) {
      if (index >= first && index - first < count) {
        own.push_back(index - first);
      }
    }
    if (!own.empty()) {
      part.push_back(std::move(own));
    }
  }
  return part;
}

}  // namespace

double ValueOf(const Metric& metric) {
  return metric.tensor.defined() ? metric.tensor.item<double>() : metric.number;
}

SessionLearner::SessionLearner(CheckpointedState kept,
                               std::vector<std::shared_ptr<torch::nn::Module>> replicated,
                               ProcessGroup& group, at::Device device, const TrainConfig& config)
    : Learner(group, !device.is_cpu()), kept_(std::move(kept)), group_(group), config_(config) {
  for (std::shared_ptr<torch::nn::Module>& module : replicated) {
    Replica replica;
    std::unordered_set<const c10::TensorImpl*> seen;  // A submodule may have two names.
    for (const auto& item : module->named_parameters()) {
      if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
        replica.names.push_back(item.key());
        replica.parameters.push_back(item.value());
      }
    }
    replica.module = std::move(module);
    replicas_.push_back(std::move(replica));
  }
}

Result<void> SessionLearner::Start(const Buckets& buckets, std::uint32_t from) {
  if (group_.torch() == nullptr) {
    kept_.GiveSteps();
    return {};
  }
  return Collectively(group_.rank(), "receive the parameters", [&]() -> Result<void> {
    ReceiveState(from);
    std::vector<at::Tensor> tensors;
    for (const Replica& replica : replicas_) {  // Things that are kept too are equal already.
      for (const at::Tensor& parameter : replica.module->parameters()) {
        tensors.push_back(parameter);
      }
    }
    Broadcast(*group_.torch(), tensors, from);
    std::size_t first = 0;
    for (Replica& replica : replicas_) {
      if (!replica.parameters.empty() && !config_.run.no_sync) {
        replica.exchange = std::make_unique<GradientExchange>(
            replica.parameters, *group_.torch(),
            PartOfBuckets(buckets, first, replica.parameters.size()), config_.BucketBytes(),
            config_.learning.compression);
      }
      first += replica.parameters.size();
    }
    NoteBuckets();
    return {};
  });
}

void SessionLearner::NoteBuckets() {
  buckets_.clear();
  std::size_t first = 0;
  for (const Replica& replica : replicas_) {
    if (replica.exchange) {
      for (std::vector<std::size_t> bucket : replica.exchange->buckets()) {
        for (std::size_t& index : bucket) {
          index += first;
        }
        buckets_.push_back(std::move(bucket));
      }
    }
    first += replica.parameters.size();
  }
}

Result<std::vector<SessionLearner::Replica*>> SessionLearner::Reached(const at::Tensor& loss) {
  Leaves leaves = LeavesOf(loss);
  std::vector<Replica*> reached;
  for (Replica& replica : replicas_) {
    std::string missing;
    std::size_t count = 0;
    for (std::size_t i = 0; i < replica.parameters.size(); ++i) {
      if (leaves.erase(replica.parameters[i].unsafeGetTensorImpl()) > 0) {
        ++count;
      } else {
        missing += (missing.empty() ? "" : ", ") + replica.names[i];
      }
    }
    if (count == 0) {
      continue;
    }
    if (!missing.empty()) {
      return Error{ErrorKind::kInvalid,
                   "these parameters of a replicated module have no part in the loss: " + missing +
                       ". The ranks would wait for their gradients. Use them in every forward, or "
                       "call set_requires_grad(false) on them before Batches"};
    }
    reached.push_back(&replica);
  }
  if (looks_elsewhere_) {
    for (const auto& [impl, leaf] : leaves) {
      if (leaf.layout() == at::kStrided) {
        elsewhere_.emplace_back(leaf, leaf.detach().to(at::kCPU, leaf.scalar_type(),
                                                       /*non_blocking=*/false, /*copy=*/true));
      }
    }
  }
  return reached;
}

// A leaf that the step did not change may be an input, or of a model that is not trained. The first
// step tells: a copy in each would cost too much, and optimizers do not count their changes.
std::string SessionLearner::TrainedElsewhere() {
  looks_elsewhere_ = false;
  std::string shapes;
  std::string not_kept;
  std::unordered_set<const c10::TensorImpl*> seen;  // By several losses.
  for (const auto& [leaf, before] : std::exchange(elsewhere_, {})) {
    if (!seen.insert(leaf.unsafeGetTensorImpl()).second || leaf.detach().cpu().equal(before)) {
      continue;
    }
    shapes += (shapes.empty() ? "" : ", ") + ShapeText(leaf.sizes());
    if (!kept_.Has(leaf)) {
      not_kept += (not_kept.empty() ? "" : ", ") + ShapeText(leaf.sizes());
    }
  }
  std::string text;
  if (!not_kept.empty()) {
    text = "no checkpoint holds these trained tensors (session.Keep): " + not_kept;
  }
  if (!shapes.empty() && group_.size() > 1 && !config_.run.no_sync) {
    text += (text.empty() ? "" : "; ") +
            ("the gradients of these are not averaged over the ranks, as no module for "
             "session.Replicate has them: " +
             shapes);
  }
  return text;
}

Result<void> SessionLearner::Backward(const at::Tensor& loss, double weight, bool exchanges) {
  if (loss.numel() != 1 || !loss.requires_grad()) {
    return Error{ErrorKind::kInvalid,
                 "Backward: the loss must be one number that depends on a parameter, not a tensor "
                 "of shape " +
                     ShapeText(loss.sizes()) +
                     (loss.requires_grad() ? "" : " that needs no gradient")};
  }
  RETURN_IF_ERROR(CheckUnchanged());
  try {
    const NamedRange range("backward");
    ASSIGN_OR_RETURN(const std::vector<Replica*> reached, Reached(loss));
    for (Replica* const replica : reached) {
      replica->reached = true;
      replica->sums = !exchanges;
      if (replica->exchange && exchanges) {
        replica->exchange->BeforeBackward();
      }
    }
    if (!weight_.defined() || weight_there_ != weight ||
        weight_.scalar_type() != loss.scalar_type()) {
      weight_ = at::full({}, weight, loss.options());
      weight_there_ = weight;
    }
    loss.backward(weight_.expand_as(loss));
    for (Replica* const replica : reached) {
      if (replica->exchange && exchanges) {
        const bool first = replica->exchange->buckets().empty();
        replica->exchange->AfterBackward();
        replica->exchange->AfterStep();
        if (first) {
          NoteBuckets();
        }
      }
    }
  } catch (const std::exception&) {
    return CollectiveError(group_.rank(), "finish the backward of a step");
  }
  AwaitCopies();
  may_change_ = true;
  return {};
}

Result<void> SessionLearner::CheckUnchanged() const {
  for (std::size_t i = 0; !may_change_ && i < versions_.size(); ++i) {
    const NamedTensor& item = kept_.model()[i];
    if (versions_[i] != item.tensor._version() && !item.changes_at_any_time) {
      return Error{ErrorKind::kInvalid,
                   "the kept parameter '" + item.name +
                       "' was changed before Backward. Change parameters between Backward and "
                       "EndStep: until Backward a checkpoint may still copy them"};
    }
  }
  return {};
}

Result<void> SessionLearner::CheckStep() const {
  for (const Replica& replica : replicas_) {
    if (replica.sums) {
      return Error{ErrorKind::kInvalid,
                   "EndStep: the gradients of the module with '" + replica.names[0] +
                       "' were not averaged over the ranks: a loss of an earlier part reached it, "
                       "but none of the last part. Finish the loop over Parts, and let the last "
                       "part's loss reach each module that an earlier one reaches"};
    }
    // A checkpoint's copies may be under way too: only Backward awaits them.
    if (!replica.reached &&
        std::any_of(replica.parameters.begin(), replica.parameters.end(),
                    [](const at::Tensor& parameter) { return parameter.grad().defined(); })) {
      return Error{ErrorKind::kInvalid,
                   "EndStep: the gradients of the module with '" + replica.names[0] +
                       "' were not averaged over the ranks: no session.Backward has reached it in "
                       "this step. Call session.Backward(loss) in place of loss.backward()"};
    }
  }
  return CheckUnchanged();
}

void SessionLearner::ForgetGradients() {
  may_change_ = false;
  versions_.clear();
  for (const NamedTensor& item : kept_.model()) {
    versions_.push_back(static_cast<std::int64_t>(item.tensor._version()));
  }
  for (Replica& replica : replicas_) {  // Those of an optimizer that is not kept, too.
    replica.reached = replica.sums = false;
    for (const at::Tensor& parameter : replica.parameters) {
      parameter.mutable_grad().reset();
    }
  }
  for (const torch::optim::Optimizer* const optimizer : kept_.optimizers()) {
    for (const torch::optim::OptimizerParamGroup& group : optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        parameter.mutable_grad().reset();  // zero_grad's detach_ is refused on views into buckets.
      }
    }
  }
}

void SessionLearner::AddMetric(const Metric& metric, std::size_t samples) {
  Sum& sum = metrics_[metric.name];
  if (samples == 0) {
    return;  // The value of a rank without a share of the batch: of a sample without a weight.
  }
  const auto weight = static_cast<double>(samples);
  if (metric.tensor.defined() && !metric.tensor.device().is_cpu()) {
    const at::Tensor added = metric.tensor.detach().to(at::kDouble) * weight;
    sum.on_device = sum.on_device.defined() ? sum.on_device + added : added;
  } else {
    sum.on_host += ValueOf(metric) * weight;
  }
}

Result<Score> SessionLearner::TakeScore() {
  return Collectively(group_.rank(), "compute the metrics", [&]() -> Result<Score> {
    Score score;
    for (auto& [name, sum] : metrics_) {
      double total = std::exchange(sum.on_host, 0);
      if (sum.on_device.defined()) {
        total += std::exchange(sum.on_device, {}).item<double>();
      }
      (name == "loss" ? score.loss_sum : score.others[name]) = total;
    }
    score.samples = std::exchange(samples_, 0);
    return score;
  });
}

std::optional<double> SessionLearner::LearningRate() const {
  if (kept_.optimizers().empty()) {
    return std::nan("");
  }
  return kept_.optimizers()[0]->param_groups()[0].options().get_lr();
}

}  // namespace ddprun
