// How a node reacts to signals: it ends, informs the workers, or saves because a scheduler wants
// the machine back, now or at a known time.
//
// Internal to agent/core: only node_agent.cc and report.cc include it.
#pragma once

#include <optional>

#include "agent/core/transitions.h"

namespace ddprun {

void OnSignal(AgentStepContext& step, const SignalArrived& arrived);

// Signals that came while these workers were being started, when no worker could receive them.
void PassOnEarlySignals(AgentStepContext& step, Generation started);

// When the workers get the signal that the job ends; none: there was no such request, or they are
// stopping.
std::optional<Time> StopTime(const AgentState& state);

// That moment has come: as a scheduler's signal, which ddprun gives itself.
void OnTimeUp(AgentStepContext& step);

}  // namespace ddprun
