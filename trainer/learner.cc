#include "trainer/learner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "common/check.h"
#include "trainer/gradient_exchange.h"
#include "trainer/models/torch_model.h"
#include "trainer/optimizer.h"
#include "trainer/profiler/recorder.h"
#include "trainer/tensor_copies.h"
#include "trainer/torch_group.h"

namespace ddprun {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

std::uint64_t CountCorrect(const at::Tensor& logits, const std::int64_t* labels) {
  const float* row = logits.const_data_ptr<float>();
  const std::int64_t classes = logits.size(1);
  std::uint64_t correct = 0;
  for (std::int64_t i = 0; i < logits.size(0); ++i, row += classes) {
    correct += std::max_element(row, row + classes) - row == labels[i];
  }
  return correct;
}

at::Tensor RoomFor(std::int64_t samples, const Shape& shape) {
  Shape all = shape;
  all.insert(all.begin(), samples);
  return at::zeros(all, at::kFloat);
}

// Matrix products and convolutions in bfloat16 as long as it lives, the rest as autocast decides.
class Autocast {
 public:
  explicit Autocast(bool wanted) : wanted_(wanted) {
    if (wanted_) {
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::autocast::set_autocast_enabled(at::kCPU, true);
    }
  }
  ~Autocast() {
    if (wanted_) {
      at::autocast::set_autocast_enabled(at::kCPU, false);
      at::autocast::clear_cache();  // Weights change with the next update.
    }
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool wanted_;
};

// As torch.nn.utils.clip_grad_norm_. Gradients are averaged by now, so every rank gets the same.
void ClipNorm(const std::vector<at::Tensor>& gradients, double most) {
  const at::NoGradGuard no_grad;
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients)).norm();
  at::_foreach_mul_(gradients, at::clamp_max(most / (norm + 1e-6), 1.0));
}

// Memory for the samples of one part.
struct Slot {
  std::vector<at::Tensor> inputs;
  at::Tensor targets;
  at::Tensor labels;
};

Slot MakeSlot(const Task& task, std::int64_t samples) {
  Slot slot;
  for (const Shape& shape : task.inputs) {
    slot.inputs.push_back(RoomFor(samples, shape));
  }
  if (task.classifies()) {
    slot.labels = at::zeros({samples}, at::kLong);
  } else {
    slot.targets = RoomFor(samples, task.target);
  }
  return slot;
}

}  // namespace

void SetThreads(int threads) {
  at::set_num_threads(threads);
}

void DemandDeterminism() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

// A frozen parameter is a buffer: part of the model, without gradient or optimizer.
static std::shared_ptr<TorchModel> Freeze(std::shared_ptr<TorchModel> model,
                                          const std::vector<std::string>& prefixes) {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 0; i < model->parameters.size(); ++i) {
    const std::string& name = model->names[i];
    const bool frozen =
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](const std::string& prefix) { return name.starts_with(prefix); });
    (frozen ? model->buffer_names : names).push_back(name);
    (frozen ? model->buffers : parameters).push_back(model->parameters[i]);
    model->parameters[i].set_requires_grad(!frozen);
  }
  model->names = std::move(names);
  model->parameters = std::move(parameters);
  return model;
}

struct Learner::Impl {
  Impl(const ModelEntry& entry, const LearnerOptions& learner_options, ProcessGroup& process_group)
      : options(learner_options),
        group(process_group),
        model(Freeze(entry.make(options.task, options.model_arguments, options.seed),
                     options.freeze)),
        optimizer(options.optimizer, model->names, model->parameters),
        weight(at::zeros({}, at::kFloat)) {
    for (at::Tensor& parameter : model->parameters) {
      CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous());
    }
  }

  Result<void> Start(std::size_t part, std::size_t evaluation, const Buckets& recorded);
  void Broadcast(const std::vector<at::Tensor>& tensors) const;
  Score AddGradients(const Part& part);
  at::Tensor Output(const std::vector<at::Tensor>& inputs, bool training) const;
  at::Tensor Loss(const at::Tensor& output, const Slot& slot, std::int64_t count) const;
  Score ScoreOf(const at::Tensor& output, const at::Tensor& loss, const Slot& slot) const;
  Result<std::vector<at::Tensor>> Gradients() const;
  std::vector<NamedTensor> ModelState() const;

  const LearnerOptions options;
  ProcessGroup& group;
  const std::shared_ptr<TorchModel> model;
  Optimizer optimizer;
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  std::array<Slot, kSlots> slots;
  at::Tensor weight;  // What a sample's loss counts in this step.
  const Buckets no_buckets;
  std::function<void()> before_update;
  std::unique_ptr<GradientExchange>
      exchange;  // None in a group of one. Last: refers to the others.
};

void Learner::Impl::Broadcast(const std::vector<at::Tensor>& tensors) const {
  const at::NoGradGuard no_grad;
  // Coalescing wants one type at a time.
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& tensor : tensors) {
    by_type[tensor.scalar_type()].push_back(tensor);
  }
  for (const auto& [type, same] : by_type) {
    c10d::broadcast_coalesced(group.torch()->group, same, kBroadcastBytes, 0);
  }
}

Result<void> Learner::Impl::Start(std::size_t part, std::size_t evaluation,
                                  const Buckets& recorded) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    const std::size_t samples = i == kEvaluationSlot ? evaluation : part;
    slots[i] = MakeSlot(options.task, static_cast<std::int64_t>(samples));
  }
  if (group.torch() == nullptr) {
    return {};
  }
  try {
    std::vector<at::Tensor> tensors = model->parameters;
    tensors.insert(tensors.end(), model->buffers.begin(), model->buffers.end());
    for (const NamedTensor& item : optimizer.state()) {
      tensors.push_back(item.tensor);
    }
    Broadcast(tensors);
    exchange = std::make_unique<GradientExchange>(model->parameters, *group.torch(), recorded,
                                                  options.bucket_bytes, options.compression);
    return {};
  } catch (const std::exception&) {
    return CollectiveError(group.rank(), "receive the parameters");
  }
}

// The sum over samples, so that parts and ranks add up. Of float targets: over all their numbers.
at::Tensor Learner::Impl::Loss(const at::Tensor& output, const Slot& slot,
                               std::int64_t count) const {
  if (options.task.classifies()) {
    return at::cross_entropy_loss(output, slot.labels.narrow(0, 0, count), {}, at::Reduction::Sum);
  }
  return at::mse_loss(output, slot.targets.narrow(0, 0, count), at::Reduction::Sum);
}

Score Learner::Impl::ScoreOf(const at::Tensor& output, const at::Tensor& loss,
                             const Slot& slot) const {
  const auto samples = static_cast<std::uint64_t>(output.size(0));
  if (options.task.classifies()) {
    return {loss.item<float>(), CountCorrect(output, slot.labels.const_data_ptr<std::int64_t>()),
            samples};
  }
  return {loss.item<double>() / static_cast<double>(NumbersIn(options.task.target)), 0, samples};
}

Score Learner::Impl::AddGradients(const Part& part) {
  const Slot& slot = slots[part.slot];
  const auto count = static_cast<std::int64_t>(part.count);
  if (part.first) {
    random.set_current_seed(part.seed);
    for (at::Tensor& parameter : model->parameters) {
      parameter.mutable_grad().reset();  // zero_grad's detach_ is refused on views into buckets.
    }
  }
  if (exchange && part.last) {
    exchange->BeforeForward();
  }
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& input : slot.inputs) {
    inputs.push_back(input.narrow(0, 0, count));
  }
  std::optional<NamedRange> range(std::in_place, "forward");
  const at::Tensor output = Output(inputs, /*training=*/true);
  const at::Tensor loss = Loss(output, slot, count);
  range.reset();
  if (exchange && part.last) {
    exchange->BeforeBackward();
  }
  // The exchange divides by the number of ranks; this undoes it and divides by all samples.
  const double numbers =
      options.task.classifies() ? 1 : static_cast<double>(NumbersIn(options.task.target));
  weight.fill_(static_cast<double>(group.size()) /
               (static_cast<double>(part.global_count) * numbers));
  range.emplace("backward");
  loss.backward(weight);
  range.reset();
  return ScoreOf(output, loss, slot);
}

// float32, whatever it was computed in.
at::Tensor Learner::Impl::Output(const std::vector<at::Tensor>& inputs, bool training) const {
  const Autocast autocast(options.bfloat16);
  return model->forward(inputs, training).to(at::kFloat);
}

Result<std::vector<at::Tensor>> Learner::Impl::Gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(model->parameters.size());
  std::string unused;
  for (std::size_t i = 0; i < model->parameters.size(); ++i) {
    gradients.push_back(model->parameters[i].grad());
    if (!gradients.back().defined()) {
      unused += (unused.empty() ? "" : ", ") + model->names[i];
    }
  }
  if (!unused.empty()) {
    return Error{ErrorKind::kInvalid,
                 "these parameters have no part in the loss, so they have no gradient: " + unused +
                     ". Every parameter must be used in every forward; leave out those that are "
                     "not"};
  }
  return gradients;
}

std::vector<NamedTensor> Learner::Impl::ModelState() const {
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < model->parameters.size(); ++i) {
    state.push_back({model->names[i], model->parameters[i]});
  }
  for (std::size_t i = 0; i < model->buffers.size(); ++i) {
    state.push_back({model->buffer_names[i], model->buffers[i]});
  }
  return state;
}

Learner::Learner(const ModelEntry& model, const LearnerOptions& options, ProcessGroup& group)
    : impl_(std::make_unique<Impl>(model, options, group)) {}

Learner::~Learner() = default;

BatchRoom Learner::room(std::size_t slot) {
  const Slot& tensors = impl_->slots[slot];
  BatchRoom room;
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) {
    room.inputs[i] = tensors.inputs[i].mutable_data_ptr<float>();
  }
  if (tensors.labels.defined()) {
    room.labels = tensors.labels.mutable_data_ptr<std::int64_t>();
  } else {
    room.targets = tensors.targets.mutable_data_ptr<float>();
  }
  return room;
}

Result<void> Learner::Start(std::size_t part, std::size_t evaluation, const Buckets& buckets) {
  return impl_->Start(part, evaluation, buckets);
}

Result<Score> Learner::Backward(const Part& part) {
  CHECK(static_cast<std::int64_t>(part.count) <= impl_->slots[part.slot].inputs[0].size(0) &&
        part.global_count > 0);
  try {
    return impl_->AddGradients(part);
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(),
                           "finish step " + std::to_string(impl_->optimizer.steps() + 1));
  }
}

Result<void> Learner::Update(double lr) {
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> gradients, impl_->Gradients());
  if (impl_->before_update) {
    impl_->before_update();
  }
  try {
    const NamedRange range("optimizer");
    if (impl_->options.clip_norm > 0) {
      ClipNorm(gradients, impl_->options.clip_norm);
    }
    impl_->optimizer.Step(gradients, lr);
    if (impl_->exchange) {
      impl_->exchange->AfterStep();
    }
    return {};
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "update the parameters");
  }
}

Result<void> Learner::ShareBuffers() {
  if (impl_->group.torch() == nullptr || impl_->model->buffers.empty()) {
    return {};
  }
  try {
    impl_->Broadcast(impl_->model->buffers);
    return {};
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "receive the buffers");
  }
}

Result<Score> Learner::Evaluate(std::size_t count) {
  const Slot& tensors = impl_->slots[kEvaluationSlot];
  const auto samples = static_cast<std::int64_t>(count);
  CHECK(samples <= tensors.inputs[0].size(0));
  try {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& input : tensors.inputs) {
      inputs.push_back(input.narrow(0, 0, samples));
    }
    const at::Tensor output = impl_->Output(inputs, /*training=*/false);
    return impl_->ScoreOf(output, impl_->Loss(output, tensors, samples), tensors);
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "evaluate the model");
  }
}

std::string Learner::Describe() const {
  std::string text;
  for (const NamedTensor& item : impl_->ModelState()) {
    text += (text.empty() ? "" : " ") + item.name + ShapeText(item.tensor.sizes());
  }
  return text;
}

void Learner::BeforeUpdate(std::function<void()> wait) {
  impl_->before_update = std::move(wait);
}

SnapshotView Learner::View() const {
  SnapshotView view{ViewsOf(impl_->ModelState()), ViewsOf(impl_->optimizer.state())};
  for (TensorView& tensor : view.model) {
    const std::vector<std::string>& buffers = impl_->model->buffer_names;
    tensor.forward_changes_it =
        std::find(buffers.begin(), buffers.end(), tensor.name) != buffers.end();
  }
  return view;
}

Result<void> Learner::CopyFrom(const Snapshot& snapshot) {
  RETURN_IF_ERROR(CopyBack(snapshot.model, impl_->ModelState()));
  return CopyBack(snapshot.optimizer, impl_->optimizer.state());
}

const Buckets& Learner::buckets() const {
  return impl_->exchange ? impl_->exchange->buckets() : impl_->no_buckets;
}

}  // namespace ddprun
