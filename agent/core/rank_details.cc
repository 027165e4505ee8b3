#include "agent/core/rank_details.h"

#include <algorithm>

namespace ddprun {
namespace {

// The smoothed time of a step follows the last eight or so.
constexpr int kSmoothing = 8;
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 31;  // Steps in one STEP; more count as
                                                              // this many.

void NoteWork(std::vector<StepWork>& work, StepWork newest) {
  work.push_back(newest);
  std::uint64_t steps = 0;
  const auto enough = std::find_if(work.rbegin(), work.rend(), [&steps](const StepWork& one) {
    steps += one.steps;
    return steps >= kWorkSteps;
  });
  if (enough != work.rend()) {
    work.erase(work.begin(), enough.base() - 1);
  }
}

}  // namespace

std::chrono::microseconds LeastWork(const Heartbeat& heartbeat) {
  std::uint64_t steps = 0;
  auto least = std::chrono::microseconds::max();
  for (const StepWork& one : heartbeat.work) {
    steps += one.steps;
    least = std::min(least, one.least);
  }
  return steps < kWorkSteps ? std::chrono::microseconds{0} : least;
}

void NoteStep(Heartbeat& heartbeat, std::uint64_t told,
              std::optional<std::chrono::microseconds> work, Time now) {
  if (heartbeat.step > 0 && told > heartbeat.step) {
    const std::uint64_t steps = std::min(told - heartbeat.step, kMostSteps);
    const std::chrono::microseconds one =
        (now - heartbeat.stepped) / static_cast<std::int64_t>(steps);
    NoteWork(heartbeat.work, {steps, work.value_or(one)});
    heartbeat.step_time = heartbeat.step_time.count() == 0
                              ? one
                              : heartbeat.step_time + (one - heartbeat.step_time) / kSmoothing;
  }
  heartbeat.stepped = now;
}

void NoteTraining(AgentStepContext& step, const WorkerSpoke& spoke) {
  AgentState& state = step.state;
  if (HasWorkers(state) && spoke.steps) {
    state.steps = *spoke.steps;
  }
  if (!HasWorkers(state) || (!spoke.loss && !spoke.samples_per_s && !spoke.checkpoint)) {
    return;
  }
  TrainingPoint point = state.training.value_or(TrainingPoint{});
  const auto heartbeat = state.heartbeats.find(spoke.local_rank);
  point.step =
      spoke.step.value_or(heartbeat == state.heartbeats.end() ? 0 : heartbeat->second.step);
  point.loss = spoke.loss ? spoke.loss : point.loss;
  point.samples_per_s = spoke.samples_per_s ? spoke.samples_per_s : point.samples_per_s;
  point.checkpoint = spoke.checkpoint ? spoke.checkpoint : point.checkpoint;
  state.training = point;
}

}  // namespace ddprun
