// One worker's training of one of ddprun-train's own models, from joining the world to the final
// lines. loop.cc is all of it on one screen.
#pragma once

#include <functional>

#include "common/result.h"
#include "trainer/data/dataset.h"
#include "trainer/loop/steps.h"
#include "trainer/loop/training.h"

namespace ddprun {

// Of one worker. `load` is called on a thread; it may wait for a disk, and may outlive the
// training: all ranks wait for the slowest one. Errors as in start.h; the process must then end
// with _exit.
Result<TrainingEnd> TrainModel(Training& training, TrainingSteps& steps,
                               std::function<Result<Dataset>()> load);

}  // namespace ddprun
