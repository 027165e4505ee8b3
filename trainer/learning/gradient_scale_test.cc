#include "trainer/learning/gradient_scale.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace ddprun {
namespace {

TEST(GradientScale, TakesTheFactorOutAgain) {
  GradientScale scale(Precision::kFloat16, at::kCPU);
  EXPECT_EQ(scale.factor(), 65536);
  const at::Tensor gradient = at::full({3}, 65536.0F * 2);
  EXPECT_TRUE(scale.Unscale({gradient}));
  EXPECT_EQ(gradient[1].item<float>(), 2);
  ASSERT_EQ(scale.state().size(), 1U);
  EXPECT_EQ(scale.state()[0].tensor[1].item<double>(), 1);  // One good step.
}

TEST(GradientScale, HalvesWhereAGradientIsNoNumber) {
  GradientScale scale(Precision::kFloat16, at::kCPU);
  EXPECT_FALSE(
      scale.Unscale({at::ones({2}), at::full({1}, std::numeric_limits<float>::infinity())}));
  EXPECT_EQ(scale.factor(), 32768);
}

TEST(GradientScale, OfOtherPrecisionsThereIsNone) {
  GradientScale scale(Precision::kBFloat16, at::kCPU);
  const at::Tensor gradient = at::full({1}, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(scale.Unscale({gradient}));
  EXPECT_EQ(scale.factor(), 1);
  EXPECT_TRUE(scale.state().empty());
}

}  // namespace
}  // namespace ddprun
