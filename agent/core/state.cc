#include "agent/core/state.h"

#include <algorithm>

namespace ddprun {

Duration OutageLimit(const AgentState& state, const AgentConfig& config) {
  const Duration limit = state.ever_heard
                             ? config.outage_limit
                             : std::min(config.outage_limit, config.shape.join_timeout);
  return config.cannot_start.empty() ? limit : std::min(limit, kTellsOthers);
}

}  // namespace ddprun
