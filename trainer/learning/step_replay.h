// Whole steps from a graph: the first ones are taken as they are, then one is recorded, and from
// then on it is replayed with each batch (step_graph.h).
//
// All ranks record the same step: what NCCL does in a graph it does with all of them. Included only
// by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/result.h"
#include "trainer/data/batch_slots.h"
#include "trainer/device/step_graph.h"

namespace ddprun {

class StepReplay {
 public:
  static constexpr std::size_t kWarmSteps = 11;  // As PyTorch demands of one with DDP in it.

  // `parameters`: whose gradients a step makes. `step`: forward and backward of a batch.
  StepReplay(std::shared_ptr<StepGraph> graph, std::vector<at::Tensor> parameters,
             std::function<void(const Batch&)> step);

  Result<void> Step(const Batch& batch);
  bool replays() const { return recorded_.has_value(); }

 private:
  // What the step in the graph reads, and where it leaves gradients.
  struct Recorded {
    Batch batch;
    std::vector<at::Tensor> gradients;
  };

  const std::shared_ptr<StepGraph> graph_;
  const std::vector<at::Tensor> parameters_;
  const std::function<void(const Batch&)> step_;
  std::size_t warm_steps_ = 0;  // Taken without a graph, before it is recorded.
  std::optional<Recorded> recorded_;
};

}  // namespace ddprun
