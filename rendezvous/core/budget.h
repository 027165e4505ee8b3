// Decides whether an incident of worker failure is paid for by the restart budget or ends the run.
//
// Pure. One budget for the whole run: --max-restarts incidents, or as many within any
// --restart-window. A run whose workers tell their steps and fail --crash-loop-limit times in a row
// without getting beyond the highest step ends with 76, since another restart would fail the same
// way; where no worker tells steps nothing is concluded from their absence. Never charges a drain
// that was a change of membership.
#pragma once

#include <string>

#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/judgement.h"

namespace ddprun {

// Some worker's STEP, as a report carries it.
void NoteProgress(Budget& budget, std::uint64_t step);

// Judges the drain that is complete, and charges the incident if it is one.
Judgement JudgeWithinBudget(CoordinatorState& state, Time now);

// "2 of 3", "2 of 3 within 1 h 0 min".
std::string RestartsInWords(const CoordinatorState& state, Time now);

}  // namespace ddprun
