// Whole steps from a graph: the first ones are taken as they are, then one is recorded for each
// place where batches lie, and from then on these are replayed (step_graph.h).
//
// All ranks record the same step: NCCL's work in a graph involves all of them. Included only by
// files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
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

  // `step`: the work of a step on a batch. `parameters`: those whose gradients the caller uses
  // after a step; none where the step uses them itself.
  StepReplay(std::shared_ptr<StepGraph> graph, std::vector<at::Tensor> parameters,
             std::function<void(const TaskBatch&)> step);

  // Counts a step. False: the caller takes this one without a graph.
  bool IsWarm();
  // After IsWarm. The batch in `place` lies in the same memory, with as many samples, each time.
  Result<void> Step(const TaskBatch& batch, std::size_t place);
  bool replays() const { return recordings_ > 0; }

 private:
  struct Recorded {
    std::size_t number = 0;             // Of the graph's recordings.
    std::vector<at::Tensor> gradients;  // Where it leaves them.
  };

  const std::shared_ptr<StepGraph> graph_;
  const std::vector<at::Tensor> parameters_;
  const std::function<void(const TaskBatch&)> step_;
  std::size_t warm_steps_ = 0;
  std::size_t recordings_ = 0;
  std::array<std::optional<Recorded>, BatchSlots::kPlaces> recorded_;
};

}  // namespace ddprun
