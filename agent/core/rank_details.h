// The details that a node reports of its workers one by one, for people: nothing is decided by
// them.
//
// Internal to agent/core.
#pragma once

#include "agent/core/transitions.h"

namespace ddprun {

// To be called before the heartbeat has that step. `work`: as the worker reported it; none: the
// time that the step took.
void NoteStep(Heartbeat& heartbeat, std::uint64_t told,
              std::optional<std::chrono::microseconds> work, Time now);

// The least of the last kWorkSteps steps; 0: there were not so many yet.
std::chrono::microseconds LeastWork(const Heartbeat& heartbeat);

// After OnWorkerSpoke: notes the training values of the step that it reported.
void NoteTraining(AgentStepContext& step, const WorkerSpoke& spoke);

}  // namespace ddprun
