#include "agent/core/state.h"

#include <algorithm>

namespace ddprun {

Duration OutageLimit(const AgentState& state, const AgentConfig& config) {
  return state.ever_heard ? config.outage_limit
                          : std::min(config.outage_limit, config.shape.join_timeout);
}

}  // namespace ddprun
