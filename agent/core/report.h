// Computes an agent's report of its node, and when time alone may change that report. Follows from
// its state, and changes nothing.
#pragma once

#include <optional>

#include "agent/core/state.h"

namespace ddprun {

NodeReport ReportOf(const AgentState& state, const AgentConfig& config);
// The parts of it whose change is a reason to send a report. Progress is none: it travels with the
// next report.
NodeReport ReasonsOf(const AgentState& state);

std::optional<Time> NextWake(const AgentState& state, const AgentConfig& config);

// The store of `placement` must stay open: this node hosts it and its world may still use it.
bool NeedsStore(const AgentState& state);

// Of its workers one by one, as of the newest call; empty without workers. Not in ReportOf: it is
// no reason to speak.
RankDetails RankDetailsOf(const AgentState& state, const AgentConfig& config);

}  // namespace ddprun
