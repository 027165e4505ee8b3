// What a learner is made of. Included by learner.cc, how it begins and what it gives out, and
// learner_step.cc, how it learns.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/data/batch_slots.h"
#include "trainer/learning/gradient_exchange.h"
#include "trainer/learning/learner.h"
#include "trainer/learning/optimizer.h"
#include "trainer/learning/tensor_copies.h"
#include "trainer/models/torch_model.h"

namespace ddprun {

inline constexpr const char* kLossScale = "loss_scale";

// What the step in the graph reads, and where it leaves gradients.
struct GraphMemory {
  Batch batch;
  std::vector<at::Tensor> gradients;
};

struct Learner::Impl {
  Impl(const ModelEntry& entry, const LearnerOptions& learner_options, ProcessGroup& process_group);

  Result<void> Start(std::size_t part, std::size_t evaluation, const Buckets& recorded);
  void Broadcast(const std::vector<at::Tensor>& tensors) const;
  Result<void> AddGradients(const Part& part);
  void ForwardBackward(const Batch& batch, bool first, bool last);
  // As ForwardBackward of a whole step, from the graph once there is one.
  Result<void> GraphStep(const Batch& batch);
  at::Tensor Output(const std::vector<at::Tensor>& inputs, bool training) const;
  at::Tensor LossOf(const at::Tensor& output, const Batch& batch) const;
  double LossesOfOneSample() const;
  void AddScore(const at::Tensor& output, const at::Tensor& loss, const Batch& batch);
  Score TakeScore();
  bool Unscale(const std::vector<at::Tensor>& gradients);
  Result<std::vector<at::Tensor>> Gradients() const;
  std::vector<NamedTensor> ModelState() const;
  std::vector<NamedTensor> OptimizerState() const;

  const LearnerOptions options;
  ProcessGroup& group;
  const at::Device device;
  const bool apart;  // From the host's memory.
  const std::shared_ptr<TorchModel> model;
  const Result<void> placed;
  Optimizer optimizer;
  at::Generator random;
  std::optional<BatchSlots> slots;  // After Start.
  at::Tensor weight;                // What a sample's loss counts in this step.
  at::Tensor norm;                  // Of the last step's gradients; undefined: not measured.
  Score score;                      // Since it was last taken: on the CPU,
  at::Tensor tally;                 // elsewhere the loss and how many were right, until asked for.
  at::Tensor loss_scale;            // LossScale's numbers, on the CPU.
  std::size_t warm_steps = 0;       // Taken without a graph, before it is recorded.
  std::optional<GraphMemory> recorded;
  HostMirror model_mirror;
  HostMirror optimizer_mirror;
  const Buckets no_buckets;
  std::function<void()> before_update;
  std::unique_ptr<GradientExchange>
      exchange;  // None in a group of one. Last: refers to the others.
};

}  // namespace ddprun
