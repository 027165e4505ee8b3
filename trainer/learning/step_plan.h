// Forward and backward of linear layers with ReLU between them and a cross-entropy at the end,
// without autograd: its kernels in its order, on tensors that are made once. In a small model
// autograd's own work is a third of a step.
//
// The gradients have the same bits as autograd's. On the CPU. Included only by files that see
// libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/data/batch_slots.h"

namespace ddprun {

class StepPlan {
 public:
  // Weight and bias of each layer in turn (TorchModel::linear_layers).
  explicit StepPlan(const std::vector<at::Tensor>& parameters);

  // Of the samples of a batch with labels, each as one row of numbers. The gradients, of `weight`
  // times the loss, are in the parameters then.
  void Step(const TaskBatch& batch, const at::Tensor& weight);
  // Of the last step, valid until the next one. The loss is a sum.
  const at::Tensor& output() const { return layers_.back().output; }
  const at::Tensor& loss() const { return loss_; }

 private:
  struct Layer {
    at::Tensor weight;
    at::Tensor weight_transposed;
    at::Tensor bias;
    at::Tensor weight_gradient;
    at::Tensor bias_gradient;
    at::Tensor output;  // After the ReLU.
    at::Tensor output_gradient;
    at::Tensor output_gradient_transposed;
  };

  void MakeRoom(std::int64_t samples);
  void Forward(const at::Tensor& inputs);
  void Backward(const at::Tensor& inputs);

  std::vector<Layer> layers_;
  std::int64_t samples_ = -1;  // For which there is room.
  at::Tensor log_probabilities_;
  at::Tensor log_gradient_;
  at::Tensor loss_;
  at::Tensor total_weight_;  // Written by the loss's forward for its backward.
};

}  // namespace ddprun
