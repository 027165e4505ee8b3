// Words for what an agent does, and the one derived number that two files need. Pure.
#pragma once

#include <string>

#include "agent/core/node_agent.h"

namespace ddprun {

// How long an idle agent without a server waits: the join timeout before the first contact.
Duration OutageLimit(const AgentState& state, const AgentConfig& config);

std::string Describe(AgentPhase phase);

// One line: phase, generation, floor, what it waits for.
std::string Describe(const AgentState& state);

// "; the job ends in 2 h 05 min", where that is known.
std::string TimeLeft(const AgentState& state, Time now);

// For transcripts: "send report 3 (hosts nothing, floor 2)", "spawn generation 1 as ranks 0-1".
std::string Describe(const AgentEffect& effect);

}  // namespace ddprun
