// How a training starts: its world, its data, its model, and the state that all ranks go on from.
//
// In the order of the functions. All ranks call them together. kUnavailable: a peer is gone, start
// the world again. kRefused: another world or run owns the checkpoints. kInvalid: the command line
// does not fit the data or the checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/result.h"
#include "trainer/data/batch_feed.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/training.h"
#include "trainer/start_plan.h"

namespace ddprun {

// Compares what the ranks were started with, too.
Result<void> JoinWorld(Training& training);

// `load` is called on a thread; it may wait for a disk, and may outlive the training. All ranks
// wait for the slowest one.
Result<void> LoadData(Training& training, std::function<Result<Dataset>()> load);

Result<void> MakeLearner(Training& training);

struct Start {
  StartPlan plan;                // Without a refusal.
  std::uint32_t state_from = 0;  // The rank whose learner has the state.
};

// Rank 0 chooses, and the others follow. If each rank looked at the disk by itself, they could see
// different things. Opens rank 0's outputs.
Result<Start> AgreeOnStart(Training& training, Saving& saving);

// Gives all ranks that state: then steps can be taken.
Result<void> StartFrom(const Start& start, Training& training);

// This rank's samples from there on. Fills the learner's memory, so it must be destroyed first.
std::unique_ptr<BatchFeed> MakeFeed(Training& training);

}  // namespace ddprun
