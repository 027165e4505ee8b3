// The only place where what an agent does becomes words. Pure.
#pragma once

#include <string>

#include "agent/core/state.h"

namespace ddprun {

std::string Describe(AgentPhase phase);

// One line: phase, generation, floor, what it waits for.
std::string Describe(const AgentState& state);

// "; the job ends in 2 h 05 min", where that is known.
std::string TimeLeft(const AgentState& state, Time now);

// For transcripts: "send report 3 (hosts nothing, floor 2)", "spawn generation 1 as ranks 0-1".
std::string Describe(const AgentEffect& effect);

}  // namespace ddprun
