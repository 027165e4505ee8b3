#include "launcher/watching/node_view.h"

#include <algorithm>

#include "rendezvous/messages/describe.h"

namespace ddprun {

void WorkerCounts::Count(Generation of, const std::optional<ExitStatus>& ended) {
  if (!ended) {
    of_it = of == generation ? of_it + 1 : 1;
    generation = of;
    ++started;
  } else if (std::holds_alternative<Killed>(*ended)) {
    ++killed;
  } else {
    ++(*ended == ExitStatus(Exited{0}) ? succeeded : failed);
  }
}

NodeView ViewOf(const AgentState& state, const AgentConfig& config, const WorkerCounts& counts,
                Time now) {
  const auto age = [now](Time then) {
    return std::chrono::floor<Duration>(std::max(now, then) - then);
  };
  NodeView view{.run_id = config.run_id,
                .node = config.node,
                .phase = state.phase,
                .term = state.term,
                .workers = config.workers,
                .alive = state.alive,
                .restarts_used = state.restarts_used,
                .max_restarts = config.spec.max_restarts,
                .ever_heard = state.ever_heard,
                .heard = age(state.heard),
                .waiting = state.waiting,
                .leaving = state.leaving != Leaving::kNo,
                .counts = counts};
  if (state.placement && state.phase != AgentPhase::kIdle) {
    view.generation = state.placement->generation;
    view.world_size = state.placement->world_size;
    view.starting = counts.generation != view.generation || counts.of_it < config.workers;
    for (const auto& [local_rank, beat] : state.heartbeats) {
      view.ranks.push_back(
          {state.placement->first_rank + local_rank, beat.step, age(beat.since), beat.late});
    }
  }
  if (state.job_end) {
    view.job_ends_unix = state.job_end->unix_seconds;
  }
  return view;
}

Readiness ReadinessOf(const NodeView& view) {
  if (view.leaving || view.phase == AgentPhase::kDone) {
    return {false, "this node is leaving"};
  }
  if (view.phase == AgentPhase::kStopping) {
    return {false, "stopping generation " + std::to_string(view.generation.value)};
  }
  if (view.phase == AgentPhase::kRunning) {
    const std::string generation = "generation " + std::to_string(view.generation.value);
    return view.starting ? Readiness{false, "starting " + generation}
                         : Readiness{true, "running " + generation};
  }
  if (!view.waiting) {
    return {false, "waiting for the rendezvous"};
  }
  const bool spare = view.waiting->what == WaitFor::kSpare;
  return {spare, Describe(*view.waiting)};
}

}  // namespace ddprun
