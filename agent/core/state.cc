#include "agent/core/state.h"

#include <algorithm>

namespace ddprun {

bool WasStopped(const AgentState& state, std::uint32_t local_rank) {
  return state.phase == AgentPhase::kStopping && !state.dying.contains(local_rank);
}

Duration OutageLimit(const AgentState& state, const AgentConfig& config) {
  const Duration limit = state.ever_heard ? config.outage_limit
                                          : std::min(config.outage_limit, config.spec.join_timeout);
  return config.cannot_start.empty() ? limit : std::min(limit, kTellsOthers);
}

}  // namespace ddprun
