#include "trainer/learning/step_replay.h"

#include <utility>

#include "trainer/profiler/recorder.h"

namespace ddprun {

StepReplay::StepReplay(std::shared_ptr<StepGraph> graph, std::vector<at::Tensor> parameters,
                       std::function<void(const TaskBatch&)> step)
    : graph_(std::move(graph)), parameters_(std::move(parameters)), step_(std::move(step)) {}

bool StepReplay::IsWarm() {
  if (warm_steps_ < kWarmSteps) {
    ++warm_steps_;
    return false;
  }
  return true;
}

Result<void> StepReplay::Step(const TaskBatch& batch, std::size_t place) {
  std::optional<Recorded>& recorded = recorded_.at(place);
  if (!recorded) {
    RETURN_IF_ERROR(graph_->Record([this, batch] { step_(batch); }));
    recorded = Recorded{recordings_++, {}};
    for (const at::Tensor& parameter : parameters_) {
      recorded->gradients.push_back(parameter.grad());
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].mutable_grad() = recorded->gradients[i];  // A step beside it has others.
  }
  const NamedRange range("replay");
  return graph_->Replay(recorded->number);
}

}  // namespace ddprun
