// How a training ends: its final evaluations, the last checkpoint, and all that is made of it.
#pragma once

#include "common/result.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/training.h"

namespace ddprun {

// After the last step. All ranks evaluate; rank 0 writes and prints the result.
Result<void> Finish(Training& training, Saving& saving);

// The training was finished before this start, with this state: rank 0 writes and prints it again.
Result<void> RepeatResult(Training& training, Saving& saving, const TrainState& state);

}  // namespace ddprun
