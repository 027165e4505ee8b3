#include "trainer/learning/learner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "common/check.h"
#include "trainer/group/torch_group.h"
#include "trainer/learning/learner_impl.h"
#include "trainer/learning/loss_scaler.h"
#include "trainer/models/placement.h"
#include "trainer/profiler/recorder.h"

namespace ddprun {
namespace {

static_assert(Learner::kSlots == BatchSlots::kSlots);
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

at::Device TorchDevice(const Device& device) {
  return device.kind == DeviceKind::kCuda
             ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))
             : at::Device(at::kCPU);
}

// In place, for those who hold the tensors already.
std::shared_ptr<TorchModel> MoveTo(at::Device device, std::shared_ptr<TorchModel> model) {
  for (const std::vector<at::Tensor>& tensors : {model->parameters, model->buffers}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.device() != device) {
        tensor.set_data(tensor.detach().to(device));
      }
    }
  }
  return model;
}

}  // namespace

void SetThreads(int threads) {
  at::set_num_threads(threads);
}

void DemandDeterminism() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // Else cuBLAS is refused.
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

// A frozen parameter is part of the model, without gradient or optimizer.
static const TorchModel& Freeze(TorchModel& model, const std::vector<std::string>& prefixes) {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = model.names[i];
    const bool frozen =
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](const std::string& prefix) { return name.starts_with(prefix); });
    (frozen ? model.frozen_names : names).push_back(name);
    (frozen ? model.frozen : parameters).push_back(model.parameters[i]);
    model.parameters[i].set_requires_grad(!frozen);
  }
  model.names = std::move(names);
  model.parameters = std::move(parameters);
  return model;
}

Learner::Impl::Impl(const ModelEntry& entry, const LearnerOptions& learner_options,
                    ProcessGroup& process_group)
    : options(learner_options),
      group(process_group),
      device(TorchDevice(options.device)),
      apart(options.apart || !device.is_cpu()),
      model(MoveTo(device, entry.make(options.task, options.model_arguments, options.seed))),
      placed(Place(*model, options.split_devices)),
      optimizer(options.optimizer, Freeze(*model, options.freeze).names, model->parameters),
      random(at::globalContext().defaultGenerator(device)),
      weight(at::zeros({}, at::TensorOptions(at::kFloat).device(device))),
      tally(at::zeros({2}, at::TensorOptions(at::kDouble).device(device))),
      loss_scale(at::tensor({LossScale{}.scale, LossScale{}.good_steps}, at::kDouble)) {
  for (at::Tensor& parameter : model->parameters) {
    CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous());
  }
}

void Learner::Impl::Broadcast(const std::vector<at::Tensor>& tensors) const {
  const at::NoGradGuard no_grad;
  // Coalescing wants one type on one device at a time.
  std::map<std::pair<at::ScalarType, std::string>, std::vector<at::Tensor>> kinds;
  for (const at::Tensor& tensor : tensors) {
    if (group.size() > 1 || !tensor.device().is_cpu()) {  // NCCL alone with itself has no CPU part.
      kinds[{tensor.scalar_type(), tensor.device().str()}].push_back(tensor);
    }
  }
  for (const auto& [kind, same] : kinds) {
    c10d::broadcast_coalesced(group.torch()->group, same, kBroadcastBytes, 0);
  }
}

Result<void> Learner::Impl::Start(std::size_t part, std::size_t evaluation,
                                  const Buckets& recorded) {
  RETURN_IF_ERROR(placed);
  try {
    if (options.graph && device.is_cuda()) {
      // The default stream cannot be recorded; nor can what was made for it, such as DDP's hooks.
      const c10::impl::VirtualGuardImpl gpu(device.type());
      const c10::Stream before = gpu.exchangeStream(gpu.getStreamFromGlobalPool(device));
      before.synchronize();
    }
    slots.emplace(options.task, device, apart, part, evaluation);
    if (group.torch() == nullptr) {
      return {};
    }
    std::vector<at::Tensor> tensors = model->parameters;
    tensors.insert(tensors.end(), model->buffers.begin(), model->buffers.end());
    tensors.insert(tensors.end(), model->frozen.begin(), model->frozen.end());
    for (const NamedTensor& item : OptimizerState()) {
      tensors.push_back(item.tensor);
    }
    Broadcast(tensors);
    if (options.sync) {
      exchange = std::make_unique<GradientExchange>(model->parameters, *group.torch(), recorded,
                                                    options.bucket_bytes, options.compression);
    }
    return {};
  } catch (const std::exception&) {
    return CollectiveError(group.rank(), "receive the parameters");
  }
}

std::vector<NamedTensor> Learner::Impl::ModelState() const {
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < model->parameters.size(); ++i) {
    state.push_back({model->names[i], model->parameters[i]});
  }
  for (std::size_t i = 0; i < model->buffers.size(); ++i) {
    state.push_back({model->buffer_names[i], model->buffers[i]});
  }
  for (std::size_t i = 0; i < model->frozen.size(); ++i) {
    state.push_back({model->frozen_names[i], model->frozen[i]});
  }
  return state;
}

std::vector<NamedTensor> Learner::Impl::OptimizerState() const {
  std::vector<NamedTensor> state = optimizer.state();
  if (options.precision == Precision::kFloat16) {
    state.push_back({kLossScale, loss_scale});
  }
  return state;
}

Learner::Learner(const ModelEntry& model, const LearnerOptions& options, ProcessGroup& group)
    : impl_(std::make_unique<Impl>(model, options, group)) {}

Learner::~Learner() = default;

BatchRoom Learner::room(std::size_t slot) {
  return impl_->slots->room(slot);
}

bool Learner::Replays() const {
  return impl_->recorded.has_value();
}

bool Learner::HasParameters() const {
  return !impl_->model->parameters.empty();
}

Result<void> Learner::Start(std::size_t part, std::size_t evaluation, const Buckets& buckets) {
  return impl_->Start(part, evaluation, buckets);
}

Result<void> Learner::Backward(const Part& part) {
  CHECK(part.count <= impl_->slots->most(part.slot) && part.global_count > 0);
  try {
    return impl_->AddGradients(part);
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(),
                           "finish step " + std::to_string(impl_->optimizer.steps() + 1));
  }
}

Result<void> Learner::Update(double lr) {
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> gradients, impl_->Gradients());
  if (impl_->before_update && !impl_->apart) {  // Of what lies apart it reads a copy.
    impl_->before_update();
  }
  try {
    const NamedRange range("optimizer");
    const bool finite = impl_->Unscale(gradients);
    if (impl_->options.clip_norm > 0 || impl_->options.measure_norm) {
      // Averaged by now, so every rank gets the same.
      impl_->norm = ClipNorm(gradients, impl_->options.clip_norm);
    }
    if (finite) {
      impl_->optimizer.Step(gradients, lr);
    }
    if (impl_->exchange) {
      impl_->exchange->AfterStep();
    }
    return {};
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "update the parameters");
  }
}

std::optional<double> Learner::GradientNorm() const {
  return impl_->norm.defined() ? std::optional<double>(impl_->norm.item<double>()) : std::nullopt;
}

std::optional<DeviceMemory> Learner::MemoryOnDevice() const {
  if (impl_->device.is_cpu()) {
    return std::nullopt;
  }
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingAllocator::Stat stat = c10::getDeviceAllocator(impl_->device.type())
                                               ->getDeviceStats(impl_->device.index())
                                               .allocated_bytes[all];
  return DeviceMemory{static_cast<std::uint64_t>(stat.current),
                      static_cast<std::uint64_t>(stat.peak)};
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

Result<double> Learner::DistanceFromRankZero() {
  try {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> first;
    for (const at::Tensor& parameter : impl_->model->parameters) {
      first.push_back(parameter.detach().clone());
    }
    impl_->Broadcast(first);
    double most = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      most = std::max(most, (first[i] - impl_->model->parameters[i]).abs().max().item<double>());
    }
    return most;
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "compare the parameters");
  }
}

Result<Score> Learner::TakeScore() {
  try {
    return impl_->TakeScore();
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(), "compute the loss");
  }
}

Result<Score> Learner::Evaluate(std::size_t count) {
  CHECK(count <= impl_->slots->most(kEvaluationSlot));
  try {
    const at::NoGradGuard no_grad;
    const Score training = impl_->TakeScore();
    const Batch batch = impl_->slots->Take(kEvaluationSlot, count);
    const at::Tensor output = impl_->Output(batch.inputs, /*training=*/false);
    impl_->AddScore(output, impl_->LossOf(output, batch), batch);
    impl_->slots->Done();
    impl_->score.samples += count;
    const Score found = impl_->TakeScore();
    impl_->score = training;
    return found;
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
  if (impl_->apart) {
    if (impl_->before_update) {
      impl_->before_update();  // The copy before this one may still be read.
    }
    return {ViewsOf(impl_->model_mirror.Copy(impl_->ModelState())),
            ViewsOf(impl_->optimizer_mirror.Copy(impl_->OptimizerState())), [impl = impl_.get()] {
              impl->model_mirror.Wait();
              impl->optimizer_mirror.Wait();
            }};
  }
  SnapshotView view{ViewsOf(impl_->ModelState()), ViewsOf(impl_->OptimizerState()), {}};
  for (TensorView& tensor : view.model) {
    const std::vector<std::string>& buffers = impl_->model->buffer_names;
    tensor.forward_changes_it =
        std::find(buffers.begin(), buffers.end(), tensor.name) != buffers.end();
  }
  return view;
}

Result<void> Learner::CopyFrom(const Snapshot& snapshot) {
  RETURN_IF_ERROR(CopyBack(snapshot.model, impl_->ModelState()));
  const bool scaled = std::any_of(snapshot.optimizer.begin(), snapshot.optimizer.end(),
                                  [](const Tensor& tensor) { return tensor.name == kLossScale; });
  // One that was trained without a scale goes on with a fresh one.
  return CopyBack(snapshot.optimizer, scaled ? impl_->OptimizerState() : impl_->optimizer.state());
}

const Buckets& Learner::buckets() const {
  return impl_->exchange ? impl_->exchange->buckets() : impl_->no_buckets;
}

}  // namespace ddprun
