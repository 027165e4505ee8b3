#include "trainer/learning/gradient_scale.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace ddprun {
namespace {

TEST(GradientScale, TakesTheFactorOutAgain) {
  GradientScale scale(at::kCPU);
  EXPECT_EQ(scale.factor(), 65536);
  const at::Tensor gradient = at::full({3}, 65536.0F * 2);
  EXPECT_TRUE(scale.Unscale({gradient}));
  EXPECT_EQ(gradient[1].item<float>(), 2);
  EXPECT_EQ(scale.state().tensor[1].item<double>(), 1);  // One good step.
}

TEST(GradientScale, HalvesWhereAGradientIsNoNumber) {
  GradientScale scale(at::kCPU);
  EXPECT_FALSE(
      scale.Unscale({at::ones({2}), at::full({1}, std::numeric_limits<float>::infinity())}));
  EXPECT_EQ(scale.factor(), 32768);
}

TEST(LossScale, HalvesAtEachOverflowAndBeginsToCountAnew) {
  LossScale scale{65536, 1999};
  scale = Next(scale, true);
  EXPECT_EQ(scale, (LossScale{32768, 0}));
  scale = Next(scale, true);
  EXPECT_EQ(scale, (LossScale{16384, 0}));
}

TEST(LossScale, DoublesAfterTwoThousandGoodStepsInARow) {
  LossScale scale;
  for (int i = 0; i < 1999; ++i) {
    scale = Next(scale, false);
    ASSERT_EQ(scale.scale, 65536);
  }
  EXPECT_EQ(Next(scale, true).scale, 32768);
  EXPECT_EQ(Next(scale, false), (LossScale{131072, 0}));
}

// A training that overflows for ever still has finite numbers in its checkpoint.
TEST(LossScale, StaysANumberThatScales) {
  LossScale low;
  LossScale high;
  for (int i = 0; i < 1000; ++i) {
    low = Next(low, true);
    high.good_steps = 1999;
    high = Next(high, false);
  }
  EXPECT_EQ(low.scale, 1.0 / 65536);
  EXPECT_GT(high.scale, 1e37);
  EXPECT_LT(high.scale, 1e38);
}

}  // namespace
}  // namespace ddprun
