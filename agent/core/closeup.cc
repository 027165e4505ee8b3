#include "agent/core/closeup.h"

#include <algorithm>

namespace ddprun {
namespace {

// What one step takes follows the last eight or so.
constexpr int kSmoothing = 8;

}  // namespace

void NoteStep(Heartbeat& heartbeat, std::uint64_t told, Time now) {
  if (heartbeat.step > 0 && told > heartbeat.step) {
    const auto steps = static_cast<std::int64_t>(
        std::min<std::uint64_t>(told - heartbeat.step, std::uint64_t{1} << 31));
    const std::chrono::microseconds one = (now - heartbeat.stepped) / steps;
    heartbeat.step_time = heartbeat.step_time.count() == 0
                              ? one
                              : heartbeat.step_time + (one - heartbeat.step_time) / kSmoothing;
  }
  heartbeat.stepped = now;
}

void NoteTraining(AgentStep& step, const WorkerSpoke& spoke) {
  AgentState& state = step.state;
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
