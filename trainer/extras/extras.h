// What a training does beside the training, where a flag asks for it: --profile, --skew,
// --sample-log, --no-sync, --init-from, --publish. The loop does not know these; they observe its
// steps.
#pragma once

#include "trainer/loop/steps.h"
#include "trainer/loop/training.h"

namespace ddprun {

void AddExtras(Training& training, TrainingSteps& steps);

}  // namespace ddprun
