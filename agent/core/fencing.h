// --fence-after: a node that got no answer for so long kills its own workers, because
// other nodes may replace them. Pure.
#pragma once

#include <optional>
#include <string>

#include "agent/core/transitions.h"

namespace ddprun {

// When the workers are killed unless a report is answered before: counted from when the last
// answered one was sent, since the coordinator counts from its arrival. Nothing: never.
std::optional<Time> FenceTime(const AgentState& state, const AgentConfig& config);

void FenceIfDue(AgentStepContext& step);

// Of an answer that has just come: it is older than a fence, so the others may have replaced this
// node by now, and no workers may be started by it. Says so.
bool ComesTooLate(AgentStepContext& step);

// How the node continues while it has no server: "; the workers continue, ...".
std::string OutageInWords(const AgentState& state, const AgentConfig& config);

}  // namespace ddprun
