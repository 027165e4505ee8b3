// How a training starts: its world, and the state from which all ranks continue.
//
// In the order of the functions. All ranks call them together. kUnavailable: a peer is gone, start
// the world again. kRefused: another world or run owns the checkpoints. kInvalid: the command line
// does not fit the data or the checkpoint.
#pragma once

#include "common/result.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/training.h"
#include "trainer/start_plan.h"

namespace ddprun {

// Compares what the ranks were started with, too.
Result<void> JoinWorld(Training& training);

// Whether all ranks have as many samples.
Result<void> CompareSamples(Training& training);

// Rank 0 chooses, and the others follow. If each rank looked at the disk by itself, they could see
// different things. Opens rank 0's outputs. The plan has no refusal.
Result<StartPlan> AgreeOnStart(Training& training, Saving& saving);

// Gives all ranks that state: then steps can be taken.
Result<void> StartFrom(const StartPlan& plan, Training& training);

}  // namespace ddprun
