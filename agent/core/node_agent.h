// Decides what one node does: when to start, stop and kill its workers, what to promise, when to
// speak to the coordinator, and when and how to end.
//
// Pure: no I/O, no clock, no threads, no logging, no randomness; the driver carries out the effects
// in order and asks NextWake. Never two generations at once: the next one is started only after
// every process of the last one is gone. Never runs a generation at or below its floor.
//
//   Idle     --Run(g), g > floor--------------------------------> Running
//   Running  --last worker exited 0 and everything is gone-------> Idle, floor := g
//   Running  --a worker dies or failed; Stop; Finish; newer Run; signal--> Stopping (TERM, KILL)
//   Stopping --no failure or loss before, or a worker still saves-> KILL is later
//   Stopping --every process is gone-----------------------------> Idle, floor := g
//   Idle     --Finish; or no server for the outage limit---------> Done
#pragma once

#include <vector>

#include "agent/core/events.h"
#include "agent/core/report.h"
#include "agent/core/state.h"

namespace ddprun {

std::vector<AgentEffect> Step(AgentState& state, const AgentConfig& config, const AgentEvent& event,
                              Time now);

}  // namespace ddprun
