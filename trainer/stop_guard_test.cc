#include "trainer/stop_guard.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono::seconds;

OverdueStop::Time At(int second) {
  return OverdueStop::Time{} + seconds(second);
}

TEST(OverdueStop, WithoutARequestAHangIsNotItsAffair) {
  OverdueStop stop(At(0));
  EXPECT_FALSE(stop.Look(At(1), 1, true, false));
  EXPECT_FALSE(stop.Look(At(1000), 1, true, false));
}

// Otherwise a request in the middle of a long hang would end it at once.
TEST(OverdueStop, PatienceBeginsWithTheRequest) {
  OverdueStop stop(At(0));
  stop.Look(At(0), 0, true, false);
  EXPECT_FALSE(stop.Look(At(100), 0, true, true));
  EXPECT_FALSE(stop.Look(At(105), 0, true, true));
  EXPECT_TRUE(stop.Look(At(106), 0, true, true));
}

TEST(OverdueStop, AStepThatEndsBeginsItAnew) {
  OverdueStop stop(At(0));
  stop.Look(At(0), 0, true, true);
  EXPECT_FALSE(stop.Look(At(4), 1, true, true));
  EXPECT_FALSE(stop.Look(At(4 + 5 + 2 * 4), 1, true, true));
  EXPECT_TRUE(stop.Look(At(4 + 5 + 2 * 4 + 1), 1, true, true));
}

TEST(OverdueStop, SavingAndEvaluatingTakeTheirTime) {
  OverdueStop stop(At(0));
  stop.Look(At(0), 0, true, true);
  EXPECT_FALSE(stop.Look(At(100), 0, false, true));
  EXPECT_FALSE(stop.Look(At(200), 0, false, true));
  EXPECT_FALSE(stop.Look(At(204), 0, true, true));
  EXPECT_TRUE(stop.Look(At(206), 0, true, true));
}

}  // namespace
}  // namespace ddprun
