#include "trainer/learning/trained_model.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "trainer/learning/autocast.h"
#include "trainer/models/placement.h"

namespace ddprun {
namespace {

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

// A frozen parameter is part of the model, without gradient or optimizer.
void Freeze(TorchModel& model, const std::vector<std::string>& prefixes) {
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
}

}  // namespace

at::Device TorchDevice(const Device& device) {
  return device.kind == DeviceKind::kCuda
             ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))
             : at::Device(at::kCPU);
}

std::optional<DeviceMemory> MemoryOf(at::Device device) {
  if (device.is_cpu()) {
    return std::nullopt;
  }
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingAllocator::Stat stat =
      c10::getDeviceAllocator(device.type())->getDeviceStats(device.index()).allocated_bytes[all];
  return DeviceMemory{static_cast<std::uint64_t>(stat.current),
                      static_cast<std::uint64_t>(stat.peak)};
}

TrainedModel::TrainedModel(std::shared_ptr<TorchModel> model, const ModelPlan& plan)
    : model_(MoveTo(plan.device, std::move(model))),
      placed_(Place(*model_, plan.split_devices)),
      precision_(plan.precision),
      device_(plan.device) {
  Freeze(*model_, plan.freeze);
  for (const at::Tensor& parameter : model_->parameters) {
    CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous());
  }
}

bool TrainedModel::IsPlainLinear() const {
  return model_->linear_layers && model_->frozen.empty() && precision_ == Precision::kFloat32 &&
         std::ranges::all_of(model_->parameters,
                             [](const at::Tensor& parameter) { return parameter.is_cpu(); });
}

at::Tensor TrainedModel::Output(const std::vector<at::Tensor>& inputs, bool training) const {
  const Autocast autocast(precision_, device_.type());
  return model_->forward(inputs, training).to(inputs[0].device(), at::kFloat);
}

void TrainedModel::ForgetGradients() {
  for (at::Tensor& parameter : model_->parameters) {
    parameter.mutable_grad().reset();  // zero_grad's detach_ is refused on views into buckets.
  }
}

Result<std::vector<at::Tensor>> TrainedModel::Gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(model_->parameters.size());
  std::string unused;
  for (std::size_t i = 0; i < model_->parameters.size(); ++i) {
    gradients.push_back(model_->parameters[i].grad());
    if (!gradients.back().defined()) {
      unused += (unused.empty() ? "" : ", ") + model_->names[i];
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

std::vector<NamedTensor> TrainedModel::State() const {
  std::vector<NamedTensor> state;
  const auto add = [&](const std::vector<std::string>& names,
                       const std::vector<at::Tensor>& tensors, bool buffers) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      state.push_back({names[i], tensors[i], /*changes_at_any_time=*/buffers});
    }
  };
  add(model_->names, model_->parameters, false);
  add(model_->buffer_names, model_->buffers, true);
  add(model_->frozen_names, model_->frozen, false);
  return state;
}

}  // namespace ddprun
