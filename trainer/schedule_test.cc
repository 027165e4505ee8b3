#include "trainer/schedule.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Schedule, ConstantIsTheRateItself) {
  EXPECT_EQ(LearningRateFactor({}, 0), 1);
  EXPECT_EQ(LearningRateFactor({}, 1'000'000), 1);
}

TEST(Schedule, WarmUpReachesTheRateWithItsLastStep) {
  const Schedule schedule{.warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 0), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 3), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 4), 1);
}

TEST(Schedule, StepFallsEverySoManySteps) {
  const Schedule schedule{
      .kind = ScheduleKind::kStep, .warmup_steps = 2, .decay_every = 10, .decay_factor = 0.5};
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 11), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 12), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 32), 0.125);
}

TEST(Schedule, CosineFallsToZeroAtTheEndAndStaysThere) {
  const Schedule schedule{.kind = ScheduleKind::kCosine, .warmup_steps = 10, .total_steps = 110};
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 60), 0.5);
  EXPECT_NEAR(LearningRateFactor(schedule, 110), 0, 1e-12);
  EXPECT_NEAR(LearningRateFactor(schedule, 500), 0, 1e-12);
  // A warm-up longer than the training.
  EXPECT_DOUBLE_EQ(
      LearningRateFactor({.kind = ScheduleKind::kCosine, .warmup_steps = 9, .total_steps = 5}, 4),
      5.0 / 9);
}

}  // namespace
}  // namespace ddprun
