// Which device each part of a model is on, where one process spreads its model over several.
//
// DDP does not mind: gradients of different devices go into different buckets, and everything that
// is saved or sent is by name. Decides nothing about the batch, which is wherever the learner has
// it: a forward takes it to its first parameters. Included only by files that see libtorch anyway.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/models/torch_model.h"

namespace ddprun {

// kInvalid: `devices` (as torch names them: cpu, cuda:1) are not one for each part of the model, it
// has no parts, or memory cannot be had on one of them. Empty: nothing is moved.
Result<void> Place(TorchModel& model, const std::vector<std::string>& devices);

}  // namespace ddprun
