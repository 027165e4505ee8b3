#include "agent/core/fencing.h"

namespace ddprun {

std::optional<Time> FenceTime(const AgentState& state, const AgentConfig& config) {
  const bool off = config.spec.fence_after == Duration{0} || state.fenced || !HasWorkers(state);
  return off ? std::nullopt : std::optional<Time>(state.answered + config.spec.fence_after);
}

void FenceIfDue(AgentStepContext& step) {
  AgentState& state = step.state;
  const std::optional<Time> fence = FenceTime(state, step.config);
  if (!fence || step.now < *fence) {
    return;
  }
  step.Tell(NoticeLevel::kWarning, "the rendezvous at " + step.config.server +
                                       " has not answered for " +
                                       FormatDuration(step.config.spec.fence_after) +
                                       " (--fence-after): killing the workers, because other nodes "
                                       "may replace them now [fence-after]");
  state.fenced = true;
  state.phase = AgentPhase::kStopping;
  state.planned = false;
  KillNow(step);
}

bool ComesTooLate(AgentStepContext& step) {
  const Duration fence = step.config.spec.fence_after;
  const auto age = std::chrono::duration_cast<Duration>(step.now - step.state.answered);
  if (fence == Duration{0} || age < fence) {
    return false;
  }
  step.Tell(NoticeLevel::kWarning,
            "ignoring an order to start workers: the answer of the rendezvous at " +
                step.config.server + " took " + FormatDuration(age) +
                " (--fence-after). Asking again");
  return true;
}

std::string OutageInWords(const AgentState& state, const AgentConfig& config) {
  if (!HasWorkers(state)) {
    return "; trying again, giving up in " + FormatDuration(OutageLimit(state, config));
  }
  const Duration fence = config.spec.fence_after;
  return "; the workers continue, trying again" +
         (fence == Duration{0} ? ""
                               : "; ddprun kills them after " + FormatDuration(fence) +
                                     " without an answer (--fence-after)");
}

}  // namespace ddprun
