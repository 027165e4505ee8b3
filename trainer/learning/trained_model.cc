#include "trainer/learning/trained_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "trainer/learning/autocast.h"

namespace ddprun {
namespace {

// In place, for holders of these tensors.
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

// Gradients of different devices go into different buckets, and everything that is saved or sent is
// by name. kInvalid: `devices` (as torch names them: cpu, cuda:1) are not one for each part of the
// model, it has no parts, or memory cannot be had on one of them. Empty: nothing is moved.
Result<void> Place(TorchModel& model, const std::vector<std::string>& devices) {
  if (devices.empty()) {
    return {};
  }
  if (model.parts.empty()) {
    return Error{ErrorKind::kInvalid,
                 "--split-devices: this model cannot be split; toy and mlp can"};
  }
  const std::size_t parts = 1 + *std::max_element(model.parts.begin(), model.parts.end());
  if (parts != devices.size()) {
    return Invalid("--split-devices must name a device for each of the model's " +
                       std::to_string(parts) + " parts",
                   std::to_string(devices.size()) + " devices");
  }
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = devices[model.parts[i]];
    try {
      // As nn.Module.to: the parameter stays the same tensor, which forward holds too.
      model.parameters[i].set_data(model.parameters[i].to(at::Device(name)));
    } catch (const c10::Error& error) {
      // torch continues with all backends there are.
      const std::string text = error.what_without_backtrace();
      return Error{ErrorKind::kInvalid,
                   "--split-devices: cannot put " + model.names[i] + " on '" + name +
                       "': " + text.substr(0, std::min(text.find('\n'), text.find(". ")))};
    }
  }
  return {};
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

TrainedModel::TrainedModel(std::shared_ptr<TorchModel> model, at::Device device,
                           const RunOptions& run, Precision precision)
    : model_(MoveTo(device, std::move(model))),
      placed_(Place(*model_, run.split_devices)),
      precision_(precision),
      device_(device) {
  Freeze(*model_, run.freeze);
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
