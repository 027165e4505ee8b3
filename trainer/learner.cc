#include "trainer/learner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "common/check.h"
#include "trainer/models/torch_model.h"
#include "trainer/torch_group.h"

namespace ddprun {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;
// As PyTorch does: a small first bucket lets the first all-reduce begin early.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;

std::string ShapeText(c10::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    text += (text.empty() ? "" : ",") + std::to_string(dimension);
  }
  return "[" + text + "]";
}

TensorView ViewOf(const std::string& name, const at::Tensor& tensor, DType dtype) {
  CHECK(tensor.is_contiguous());
  return {name,
          dtype,
          tensor.sizes().vec(),
          {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

using TensorIndex = std::map<std::string, const Tensor*>;

TensorIndex IndexOf(const std::vector<Tensor>& tensors) {
  TensorIndex index;
  for (const Tensor& tensor : tensors) {
    index[tensor.name] = &tensor;
  }
  return index;
}

Result<void> CopyInto(const TensorIndex& index, const std::string& name, DType dtype,
                      at::Tensor& tensor) {
  const auto found = index.find(name);
  if (found == index.end()) {
    return Invalid("the checkpoint lacks a tensor of this model", name);
  }
  const Tensor& saved = *found->second;
  if (saved.dtype != dtype || saved.shape != tensor.sizes().vec() ||
      saved.bytes.size() != tensor.nbytes()) {
    return Invalid("a tensor of the checkpoint has another type or shape than this model's " +
                       ShapeText(tensor.sizes()),
                   name);
  }
  std::memcpy(tensor.mutable_data_ptr(), saved.bytes.data(), saved.bytes.size());
  return {};
}

std::uint64_t CountCorrect(const at::Tensor& logits, const std::int64_t* labels) {
  const float* row = logits.const_data_ptr<float>();
  const std::int64_t classes = logits.size(1);
  std::uint64_t correct = 0;
  for (std::int64_t i = 0; i < logits.size(0); ++i, row += classes) {
    correct += std::max_element(row, row + classes) - row == labels[i];
  }
  return correct;
}

}  // namespace

void SetThreads(int threads) {
  at::set_num_threads(threads);
}

struct Learner::Impl {
  Impl(const ModelEntry& entry, const LearnerOptions& learner_options, ProcessGroup& process_group)
      : options(learner_options),
        group(process_group),
        model(entry.make(options.shape, options.seed)),
        name(entry.name),
        adam_step(at::zeros({}, at::kFloat)),
        weight(at::zeros({}, at::kFloat)) {
    for (at::Tensor& parameter : model->parameters) {
      CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous());
      parameter.set_requires_grad(true);
      average.push_back(at::zeros_like(parameter));
      average_square.push_back(at::zeros_like(parameter));
      adam_steps.push_back(adam_step);
    }
  }

  Result<void> Start(std::size_t capacity, const Buckets& recorded);
  bool UsableHere(const Buckets& recorded) const;
  void MakeReducer(const Buckets& recorded);
  void RebuildBuckets();
  Score TakeStep(std::int64_t count, std::uint64_t global_count, std::uint64_t seed);
  void UpdateParameters();

  const LearnerOptions options;
  ProcessGroup& group;
  const std::shared_ptr<TorchModel> model;
  const std::string name;
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  at::Tensor images;
  at::Tensor labels;
  std::vector<at::Tensor> average;         // Adam's exp_avg
  std::vector<at::Tensor> average_square;  // Adam's exp_avg_sq
  std::int64_t steps = 0;
  at::Tensor adam_step;                // `steps`, as the kernel wants it,
  std::vector<at::Tensor> adam_steps;  // once per parameter.
  at::Tensor weight;                   // What a sample's loss counts in this step.
  Buckets buckets;
  std::function<void()> before_update;
  std::unique_ptr<c10d::Reducer> reducer;  // None in a group of one. Last: refers to the others.
};

Result<void> Learner::Impl::Start(std::size_t capacity, const Buckets& recorded) {
  const auto samples = static_cast<std::int64_t>(capacity);
  images = at::zeros({samples, options.shape.inputs}, at::kFloat);
  labels = at::zeros({samples}, at::kLong);
  if (group.torch() == nullptr) {
    return {};
  }
  try {
    const at::NoGradGuard no_grad;
    const at::Tensor step_count = at::full({1}, steps, at::kLong);
    c10d::broadcast_coalesced(group.torch()->group, {step_count}, kBroadcastBytes, 0);
    steps = step_count.item<std::int64_t>();
    for (const std::vector<at::Tensor>* tensors : {&model->parameters, &average, &average_square}) {
      c10d::broadcast_coalesced(group.torch()->group, *tensors, kBroadcastBytes, 0);
    }
    MakeReducer(recorded);
    return {};
  } catch (const std::exception&) {
    return CollectiveError(group.rank(), "receive the parameters");
  }
}

// Every parameter exactly once, or the record is of no use.
bool Learner::Impl::UsableHere(const Buckets& recorded) const {
  std::vector<int> seen(model->parameters.size(), 0);
  std::size_t count = 0;
  for (const std::vector<std::size_t>& bucket : recorded) {
    for (const std::size_t index : bucket) {
      if (index >= seen.size() || seen[index]++ != 0) {
        return false;
      }
      ++count;
    }
    if (bucket.empty()) {
      return false;
    }
  }
  return count == seen.size();
}

void Learner::Impl::MakeReducer(const Buckets& recorded) {
  const std::size_t first = std::min(kFirstBucketBytes, options.bucket_bytes);
  const std::vector<bool> sparse(model->parameters.size(), false);
  Buckets initial = recorded;
  if (!UsableHere(recorded)) {
    initial = std::get<0>(c10d::compute_bucket_assignment_by_size(
        model->parameters, {first, options.bucket_bytes}, sparse));
    std::reverse(initial.begin(), initial.end());  // Backward begins at the last layer.
  } else {
    buckets = recorded;
  }
  reducer = std::make_unique<c10d::Reducer>(
      model->parameters, initial, group.torch()->group, sparse,
      /*bucket_bytes_cap=*/static_cast<std::int64_t>(options.bucket_bytes),
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
      std::unordered_map<std::size_t, std::string>{},
      /*first_bucket_bytes_cap=*/static_cast<std::int64_t>(first),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{static_cast<std::int64_t>(first),
                                static_cast<std::int64_t>(options.bucket_bytes)});
}

// Once, after the first step: buckets in the order in which gradients became ready, agreed upon by
// all ranks. Recorded, since with three ranks or more the order decides how sums are rounded.
void Learner::Impl::RebuildBuckets() {
  if (!reducer->rebuild_buckets()) {
    return;
  }
  buckets.clear();
  for (const c10d::GradBucket& bucket : reducer->get_grad_buckets()) {
    std::vector<std::size_t>& indices = buckets.emplace_back();
    for (const at::Tensor& parameter : bucket.getParameters()) {
      const auto found =
          std::find_if(model->parameters.begin(), model->parameters.end(),
                       [&](const at::Tensor& candidate) { return candidate.is_same(parameter); });
      CHECK(found != model->parameters.end());
      indices.push_back(static_cast<std::size_t>(found - model->parameters.begin()));
    }
  }
}

Score Learner::Impl::TakeStep(std::int64_t count, std::uint64_t global_count, std::uint64_t seed) {
  random.set_current_seed(seed);
  for (at::Tensor& parameter : model->parameters) {
    parameter.mutable_grad().reset();  // zero_grad's detach_ is refused on views into buckets.
  }
  if (reducer) {
    reducer->prepare_for_forward();
  }
  const at::Tensor logits = model->forward(model->parameters, images.narrow(0, 0, count));
  const at::Tensor loss =
      at::cross_entropy_loss(logits, labels.narrow(0, 0, count), {}, at::Reduction::Sum);
  if (reducer) {
    reducer->prepare_for_backward({});
  }
  // The reducer divides by the number of ranks; this undoes it and divides by all samples.
  weight.fill_(static_cast<double>(group.size()) / static_cast<double>(global_count));
  loss.backward(weight);
  if (before_update) {
    before_update();
  }
  UpdateParameters();
  if (reducer) {
    RebuildBuckets();
  }
  return {loss.item<float>(), CountCorrect(logits, labels.const_data_ptr<std::int64_t>()),
          static_cast<std::uint64_t>(count)};
}

void Learner::Impl::UpdateParameters() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  gradients.reserve(model->parameters.size());
  for (const at::Tensor& parameter : model->parameters) {
    gradients.push_back(parameter.grad());
  }
  adam_step.fill_(++steps);
  at::_fused_adam_(model->parameters, gradients, average, average_square, {}, adam_steps,
                   options.lr, kBeta1, kBeta2, /*weight_decay=*/0, kEpsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
}

Learner::Learner(const ModelEntry& model, const LearnerOptions& options, ProcessGroup& group)
    : impl_(std::make_unique<Impl>(model, options, group)) {}

Learner::~Learner() = default;

float* Learner::images() {
  return impl_->images.mutable_data_ptr<float>();
}

std::int64_t* Learner::labels() {
  return impl_->labels.mutable_data_ptr<std::int64_t>();
}

Result<void> Learner::Start(std::size_t capacity, const Buckets& buckets) {
  return impl_->Start(capacity, buckets);
}

Result<Score> Learner::Step(std::size_t count, std::uint64_t global_count, std::uint64_t seed) {
  CHECK(static_cast<std::int64_t>(count) <= impl_->images.size(0) && global_count > 0);
  try {
    return impl_->TakeStep(static_cast<std::int64_t>(count), global_count, seed);
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "finish step " + std::to_string(impl_->steps + 1));
  }
}

Result<Score> Learner::Evaluate(std::size_t count) {
  CHECK(static_cast<std::int64_t>(count) <= impl_->images.size(0));
  try {
    const at::NoGradGuard no_grad;
    const auto samples = static_cast<std::int64_t>(count);
    const at::Tensor logits =
        impl_->model->forward(impl_->model->parameters, impl_->images.narrow(0, 0, samples));
    const at::Tensor loss =
        at::cross_entropy_loss(logits, impl_->labels.narrow(0, 0, samples), {}, at::Reduction::Sum);
    return Score{loss.item<float>(), CountCorrect(logits, labels()), count};
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "evaluate the model");
  }
}

std::string Learner::Describe() const {
  std::string text;
  for (std::size_t i = 0; i < impl_->model->parameters.size(); ++i) {
    text += (i == 0 ? "" : " ") + impl_->model->names[i] +
            ShapeText(impl_->model->parameters[i].sizes());
  }
  return text;
}

void Learner::BeforeUpdate(std::function<void()> wait) {
  impl_->before_update = std::move(wait);
}

SnapshotView Learner::View() const {
  const TorchModel& model = *impl_->model;
  SnapshotView view;
  view.optimizer.push_back({"step",
                            DType::kI64,
                            {},
                            {reinterpret_cast<const char*>(&impl_->steps), sizeof impl_->steps}});
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = model.names[i];
    view.model.push_back(ViewOf(name, model.parameters[i], DType::kF32));
    view.optimizer.push_back(ViewOf("exp_avg." + name, impl_->average[i], DType::kF32));
    view.optimizer.push_back(ViewOf("exp_avg_sq." + name, impl_->average_square[i], DType::kF32));
  }
  return view;
}

Result<void> Learner::CopyFrom(const Snapshot& snapshot) {
  TorchModel& model = *impl_->model;
  const TensorIndex parameters = IndexOf(snapshot.model);
  const TensorIndex optimizer = IndexOf(snapshot.optimizer);
  at::Tensor steps = at::zeros({}, at::kLong);
  RETURN_IF_ERROR(CopyInto(optimizer, "step", DType::kI64, steps));
  impl_->steps = steps.item<std::int64_t>();
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = model.names[i];
    RETURN_IF_ERROR(CopyInto(parameters, name, DType::kF32, model.parameters[i]));
    RETURN_IF_ERROR(CopyInto(optimizer, "exp_avg." + name, DType::kF32, impl_->average[i]));
    RETURN_IF_ERROR(
        CopyInto(optimizer, "exp_avg_sq." + name, DType::kF32, impl_->average_square[i]));
  }
  return {};
}

const Buckets& Learner::buckets() const {
  return impl_->buckets;
}

}  // namespace ddprun
