// What a training of one of ddprun-train's own models needs before its first step.
//
// All ranks call these together, in this order. Errors as in start.h.
#pragma once

#include <functional>
#include <memory>

#include "common/result.h"
#include "trainer/data/batch_feed.h"
#include "trainer/data/dataset.h"
#include "trainer/learning/model_learner.h"
#include "trainer/loop/training.h"

namespace ddprun {

// `load` is called on a thread; it may wait for a disk, and may outlive the training. All ranks
// wait for the slowest one.
Result<void> LoadData(Training& training, std::function<Result<Dataset>()> load);

// Becomes the training's learner, and scores its evaluations.
Result<ModelLearner*> MakeLearner(Training& training);

// This rank's samples from the training's state on. Fills the learner's memory, so it must be
// destroyed first.
Result<std::unique_ptr<BatchFeed>> MakeFeed(Training& training, ModelLearner& learner);

}  // namespace ddprun
