// What a training makes small: the loss of a model's output, by the task's targets or labels.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/data/batch_slots.h"
#include "trainer/options/learning_options.h"
#include "trainer/task.h"

namespace ddprun {

class Objective {
 public:
  Objective(const Task& task, Loss loss) : task_(task), loss_(loss) {}

  // The sum over samples, so that parts and ranks add up.
  at::Tensor LossOf(const at::Tensor& output, const Batch& batch) const;

  // How many losses are in a sample's, of which PyTorch takes the mean: for float targets one of
  // each number, or one of each distribution.
  double LossesOfOneSample() const;

 private:
  const Task task_;
  const Loss loss_;
};

}  // namespace ddprun
