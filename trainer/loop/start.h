// How a training starts: its world, and the state from which all ranks continue.
//
// In the order of the functions. All ranks call them together. kUnavailable: a peer is gone, start
// the world again. kRefused: another world or run owns the checkpoints. kInvalid: the command line
// does not fit the data or the checkpoint.
#pragma once

#include <cstdint>

#include "common/result.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/training.h"
#include "trainer/start_plan.h"

namespace ddprun {

// Compares what the ranks were started with, too.
Result<void> JoinWorld(Training& training);

// Whether all ranks have as many samples.
Result<void> CompareSamples(Training& training);

struct Start {
  StartPlan plan;                // Without a refusal.
  std::uint32_t state_from = 0;  // The rank whose learner has the state.
};

// Rank 0 chooses, and the others follow. If each rank looked at the disk by itself, they could see
// different things. Opens rank 0's outputs.
Result<Start> AgreeOnStart(Training& training, Saving& saving);

// Gives all ranks that state: then steps can be taken.
Result<void> StartFrom(const Start& start, Training& training);

}  // namespace ddprun
