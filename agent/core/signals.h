// What signals ask of a node: to end, to tell the workers, to save because a scheduler wants the
// machine back, or will at a time that is known.
//
// Internal to agent/core: only node_agent.cc and report.cc include it.
#pragma once

#include <optional>

#include "agent/core/transitions.h"

namespace ddprun {

void OnSignal(AgentStepContext& step, const SignalArrived& arrived);

// Those that came while these workers were being started, when nobody would have heard them.
void PassOnEarlySignals(AgentStepContext& step, Generation started);

// When the workers must be told that the job ends; none: nobody asked, or they are stopping.
std::optional<Time> StopTime(const AgentState& state);

// That moment has come: as a scheduler's signal, which ddprun gives itself.
void OnTimeUp(AgentStepContext& step);

}  // namespace ddprun
