#include "trainer/learning/step_replay.h"

#include <ATen/ATen.h>

#include <utility>

#include "trainer/profiler/recorder.h"

namespace ddprun {

StepReplay::StepReplay(std::shared_ptr<StepGraph> graph, std::vector<at::Tensor> parameters,
                       std::function<void(const Batch&)> step)
    : graph_(std::move(graph)), parameters_(std::move(parameters)), step_(std::move(step)) {}

Result<void> StepReplay::Step(const Batch& batch) {
  if (warm_steps_ < kWarmSteps) {
    ++warm_steps_;
    step_(batch);
    return {};
  }
  if (!recorded_) {
    recorded_.emplace();
    ForEachTensor(batch, recorded_->batch,
                  [](const at::Tensor& from, at::Tensor& to) { to = at::empty_like(from); });
    RETURN_IF_ERROR(graph_->Record([this] { step_(recorded_->batch); }));
    for (const at::Tensor& parameter : parameters_) {
      recorded_->gradients.push_back(parameter.grad());
    }
  }
  ForEachTensor(batch, recorded_->batch,
                [](const at::Tensor& from, at::Tensor& to) { to.copy_(from); });
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].mutable_grad() = recorded_->gradients[i];  // A step beside it has others.
  }
  const NamedRange range("replay");
  return graph_->Replay();
}

}  // namespace ddprun
