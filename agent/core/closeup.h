// What a node tells of its workers one by one, for people: nothing is decided by it.
//
// Internal to agent/core.
#pragma once

#include "agent/core/transitions.h"

namespace ddprun {

// Before the heartbeat has that step.
void NoteStep(Heartbeat& heartbeat, std::uint64_t told, Time now);

// After OnWorkerSpoke: of the step that it has told.
void NoteTraining(AgentStep& step, const WorkerSpoke& spoke);

}  // namespace ddprun
