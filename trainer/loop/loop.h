// One worker's training of one of ddprun-train's own models, in a joined world: its data, its
// model, its steps. TrainModel is all of it on one screen.
#pragma once

#include <functional>

#include "common/result.h"
#include "trainer/data/dataset.h"
#include "trainer/loop/steps.h"
#include "trainer/loop/training.h"

namespace ddprun {

// Within steps.Run. `load` is called on a thread; it may wait for a disk, and may outlive the
// training. Errors as in start.h.
Result<TrainingEnd> TrainModel(Training& training, TrainingSteps& steps,
                               std::function<Result<Dataset>()> load);

}  // namespace ddprun
