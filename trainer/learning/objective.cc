#include "trainer/learning/objective.h"

#include <ATen/ATen.h>

namespace ddprun {

at::Tensor Objective::LossOf(const at::Tensor& output, const Batch& batch) const {
  if (task_.classifies()) {
    return at::cross_entropy_loss(output, batch.labels, {}, at::Reduction::Sum);
  }
  if (loss_ == Loss::kCrossEntropy) {
    return at::cross_entropy_loss(output, batch.targets, {}, at::Reduction::Sum);
  }
  return at::mse_loss(output, batch.targets, at::Reduction::Sum);
}

double Objective::LossesOfOneSample() const {
  if (task_.classifies()) {
    return 1;
  }
  const auto numbers = static_cast<double>(NumbersIn(task_.target));
  return loss_ == Loss::kCrossEntropy ? numbers / static_cast<double>(task_.target[0]) : numbers;
}

}  // namespace ddprun
