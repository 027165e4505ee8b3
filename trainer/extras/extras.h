// The optional parts of a training, each asked for by a flag: --profile, --skew, --sample-log,
// --no-sync, --init-from, --publish. The loop does not know them; they observe its steps.
#pragma once

#include "trainer/loop/steps.h"
#include "trainer/loop/training.h"

namespace ddprun {

void AddExtras(Training& training, TrainingSteps& steps);

}  // namespace ddprun
