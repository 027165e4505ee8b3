#include "trainer/learning/loss_scaler.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

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
