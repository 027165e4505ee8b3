#include "trainer/learning/objective.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ddprun {
namespace {

// As torch.nn.functional.cross_entropy of the same numbers in Python: the mean over distributions.
TEST(Objective, FloatTargetsCanBeProbabilities) {
  const Objective objective({.inputs = {{2, 3}}, .classes = 0, .target = {2, 3}},
                            Loss::kCrossEntropy);
  const at::Tensor numbers = at::tensor({0.0F, 1.0F, 2.0F, 0.0F, 0.0F, 0.0F}).view({1, 2, 3});
  const Batch batch{.inputs = {numbers},
                    .targets = at::tensor({1.0F, 0.5F, 0.0F, 0.0F, 0.5F, 1.0F}).view({1, 2, 3}),
                    .labels = {}};
  const double first = std::log(2);                       // -log(1/2)
  const double second = std::log(1 + std::exp(1)) - 0.5;  // Half of each.
  const double third = std::log(1 + std::exp(2));         // The smaller one is right.
  EXPECT_EQ(objective.LossesOfOneSample(), 3);
  EXPECT_NEAR(objective.LossOf(numbers, batch).item<float>(), first + second + third, 1e-6);
}

TEST(Objective, SquaresAreOfEachNumber) {
  const Objective objective({.inputs = {{1}}, .classes = 0, .target = {2}}, Loss::kByTargets);
  const Batch batch{.inputs = {}, .targets = at::zeros({3, 2}), .labels = {}};
  EXPECT_EQ(objective.LossesOfOneSample(), 2);
  EXPECT_EQ(objective.LossOf(at::full({3, 2}, 2.0F), batch).item<float>(), 24);
}

TEST(Objective, LabelsHaveOneLossASample) {
  const Objective objective({.inputs = {{1}}, .classes = 2, .target = {}}, Loss::kByTargets);
  const Batch batch{.inputs = {}, .targets = {}, .labels = at::zeros({4}, at::kLong)};
  EXPECT_EQ(objective.LossesOfOneSample(), 1);
  EXPECT_NEAR(objective.LossOf(at::zeros({4, 2}), batch).item<float>(), 4 * std::log(2), 1e-6);
}

}  // namespace
}  // namespace ddprun
