#include "trainer/learning/step_plan.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "trainer/profiler/recorder.h"

namespace ddprun {
namespace {

constexpr std::int64_t kIgnored = -100;  // PyTorch's default; no label has it.

}  // namespace

StepPlan::StepPlan(const std::vector<at::Tensor>& parameters)
    : loss_(at::zeros({}, at::kFloat)), total_weight_(at::zeros({}, at::kFloat)) {
  for (std::size_t i = 0; i < parameters.size(); i += 2) {
    Layer& layer = layers_.emplace_back();
    layer.weight = parameters[i];
    layer.weight_transposed = parameters[i].detach().t();
    layer.bias = parameters[i + 1];
    layer.weight_gradient = at::empty_like(parameters[i]);
    layer.bias_gradient = at::empty_like(parameters[i + 1]);
  }
}

void StepPlan::MakeRoom(std::int64_t samples) {
  if (samples == samples_) {
    return;
  }
  samples_ = samples;
  for (Layer& layer : layers_) {
    layer.output = at::empty({samples, layer.bias.size(0)}, at::kFloat);
    layer.output_gradient = at::empty_like(layer.output);
    layer.output_gradient_transposed = layer.output_gradient.t();
  }
  log_probabilities_ = at::empty_like(layers_.back().output);
  log_gradient_ = at::empty_like(log_probabilities_);
}

void StepPlan::Step(const TaskBatch& batch, const at::Tensor& weight) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor inputs = batch.inputs[0].flatten(1);
  MakeRoom(inputs.size(0));
  {
    const NamedRange range("forward");
    Forward(inputs);
    at::_log_softmax_out(log_probabilities_, output(), 1, /*half_to_float=*/false);
    at::nll_loss_forward_out(loss_, total_weight_, log_probabilities_, batch.labels, {},
                             at::Reduction::Sum, kIgnored);
  }
  const NamedRange range("backward");
  at::nll_loss_backward_out(log_gradient_, weight, log_probabilities_, batch.labels, {},
                            at::Reduction::Sum, kIgnored, total_weight_);
  at::_log_softmax_backward_data_out(layers_.back().output_gradient, log_gradient_,
                                     log_probabilities_, 1, at::kFloat);
  Backward(inputs);
}

void StepPlan::Forward(const at::Tensor& inputs) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    at::addmm_out(layer.output, layer.bias, i == 0 ? inputs : layers_[i - 1].output,
                  layer.weight_transposed);
    if (i + 1 < layers_.size()) {
      layer.output.relu_();
    }
  }
}

void StepPlan::Backward(const at::Tensor& inputs) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    at::mm_out(layer.weight_gradient, layer.output_gradient_transposed,
               i == 0 ? inputs : layers_[i - 1].output);
    at::sum_out(layer.bias_gradient, layer.output_gradient, 0);
    layer.weight.mutable_grad() = layer.weight_gradient;
    layer.bias.mutable_grad() = layer.bias_gradient;
    if (i > 0) {
      Layer& before = layers_[i - 1];
      at::mm_out(before.output_gradient, layer.output_gradient, layer.weight);
      at::threshold_backward_out(before.output_gradient, before.output_gradient, before.output, 0);
    }
  }
}

}  // namespace ddprun
