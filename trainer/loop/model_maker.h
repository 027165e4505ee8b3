// The model of --model, and how it learns, as the flags say.
#pragma once

#include "common/result.h"
#include "trainer/learning/model_learner.h"
#include "trainer/loop/training.h"

namespace ddprun {

// Becomes the training's learner, and scores its evaluations. Needs the training's data set.
// kInvalid: the flags do not fit this device or model. kSystem: the model cannot be made.
Result<ModelLearner*> MakeLearner(Training& training);

}  // namespace ddprun
