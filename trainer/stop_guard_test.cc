#include "trainer/stop_guard.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono::seconds;
using enum RankActivity;

OverdueStop::Time At(int second) {
  return OverdueStop::Time{} + seconds(second);
}

struct OverdueStopTest : testing::Test {
  OverdueStop stop{At(0)};
};

TEST_F(OverdueStopTest, WithoutARequestAHangIsNotItsAffair) {
  EXPECT_FALSE(stop.Look(At(1), 1, kStepping, false));
  EXPECT_FALSE(stop.Look(At(1000), 1, kStepping, false));
}

// Otherwise a request in the middle of a long hang would end it at once.
TEST_F(OverdueStopTest, PatienceBeginsWithTheRequest) {
  stop.Look(At(0), 1, kStepping, false);
  EXPECT_FALSE(stop.Look(At(100), 1, kStepping, true));
  EXPECT_FALSE(stop.Look(At(105), 1, kStepping, true));
  EXPECT_TRUE(stop.Look(At(106), 1, kStepping, true));
}

TEST_F(OverdueStopTest, AStepThatEndsBeginsItAnew) {
  stop.Look(At(0), 0, kStepping, true);
  EXPECT_FALSE(stop.Look(At(4), 1, kStepping, true));
  EXPECT_FALSE(stop.Look(At(4 + 5 + 2 * 4), 1, kStepping, true));
  EXPECT_TRUE(stop.Look(At(4 + 5 + 2 * 4 + 1), 1, kStepping, true));
}

TEST_F(OverdueStopTest, SavingAndEvaluatingTakeTheirTime) {
  stop.Look(At(0), 1, kStepping, true);
  EXPECT_FALSE(stop.Look(At(100), 1, kBusy, true));
  EXPECT_FALSE(stop.Look(At(200), 1, kBusy, true));
  EXPECT_FALSE(stop.Look(At(204), 1, kStepping, true));
  EXPECT_TRUE(stop.Look(At(206), 1, kStepping, true));
}

// Its share takes a minute, so the others' may take as long again; a hung peer's never ends.
TEST_F(OverdueStopTest, InAValidationTheOthersHaveWhatItsOwnShareTook) {
  stop.Look(At(0), 0, kStepping, true);
  stop.Look(At(1), 1, kBusy, true);
  stop.Look(At(61), 1, kBusy, true);
  EXPECT_FALSE(stop.Look(At(62), 1, kWaiting, true));
  EXPECT_FALSE(stop.Look(At(61 + 5 + 2 * 60), 1, kWaiting, true));
  EXPECT_TRUE(stop.Look(At(61 + 5 + 2 * 60 + 1), 1, kWaiting, true));
}

// Rounds are short, regardless of a step's time; a rank that does not save gives a disk its time.
TEST_F(OverdueStopTest, WhileOneSavesEachTurnBeginsItAnew) {
  stop.Look(At(0), 1, kBusy, true);
  for (int round = 1; round < 30; ++round) {
    EXPECT_FALSE(stop.Look(At(4 * round), 1, kInRound, true, {std::uint64_t(round), seconds(0)}));
  }
  EXPECT_FALSE(stop.Look(At(116 + 5), 1, kInRound, true, {29, seconds(0)}));
  EXPECT_TRUE(stop.Look(At(116 + 6), 1, kInRound, true, {29, seconds(0)}));
}

TEST_F(OverdueStopTest, ARankThatDoesNotSaveWaitsForLonger) {
  stop.Look(At(0), 1, kBusy, true);
  stop.Look(At(1), 1, kInRound, true, {1, seconds(20)});
  EXPECT_FALSE(stop.Look(At(1 + 5 + 20), 1, kInRound, true, {1, seconds(20)}));
  EXPECT_TRUE(stop.Look(At(1 + 5 + 20 + 1), 1, kInRound, true, {1, seconds(20)}));
}

// It has saved for a minute, which is no measure for the round after that.
TEST_F(OverdueStopTest, ARankThatSavesIsNotHurriedAndThenNotWaitedFor) {
  stop.Look(At(0), 1, kBusy, true, {1, seconds(0)});
  EXPECT_FALSE(stop.Look(At(60), 1, kBusy, true, {1, seconds(0)}));
  EXPECT_FALSE(stop.Look(At(65), 1, kInRound, true, {1, seconds(0)}));
  EXPECT_TRUE(stop.Look(At(66), 1, kInRound, true, {1, seconds(0)}));
}

// Nothing is known of it, and it loads libraries and chooses kernels.
TEST_F(OverdueStopTest, TheFirstStepMayTakeLonger) {
  stop.Look(At(0), 0, kStepping, true);
  EXPECT_FALSE(stop.Look(At(5 + 2 * 10), 0, kStepping, true));
  EXPECT_TRUE(stop.Look(At(5 + 2 * 10 + 1), 0, kStepping, true));
}

TEST_F(OverdueStopTest, ARankThatReadsItsSamplesGivesTheDiskItsTime) {
  stop.Look(At(0), 1, kStepping, true);
  stop.Look(At(1), 1, kReading, true);
  EXPECT_FALSE(stop.Look(At(1 + 5 + 20), 1, kReading, true));
  EXPECT_TRUE(stop.Look(At(1 + 5 + 20 + 1), 1, kReading, true));
  EXPECT_FALSE(stop.Look(At(28), 1, kStepping, true));  // They came.
}

// They cannot say that they read.
TEST_F(OverdueStopTest, PeersThatReadTheirSamplesHaveTheirDisksTimeToo) {
  OverdueStop patient(At(0), seconds(20));
  patient.Look(At(0), 1, kStepping, true);
  EXPECT_FALSE(patient.Look(At(5 + 20), 1, kStepping, true));
  EXPECT_TRUE(patient.Look(At(5 + 20 + 1), 1, kStepping, true));
  patient.Look(At(30), 1, kInRound, true, {1, seconds(0)});
  EXPECT_TRUE(patient.Look(At(30 + 5 + 1), 1, kInRound, true, {1, seconds(0)}));
}

// A validation is no measure for the steps after it.
TEST_F(OverdueStopTest, AStepIsMeasuredByStepsAlone) {
  stop.Look(At(0), 0, kStepping, true);
  stop.Look(At(1), 1, kBusy, true);
  stop.Look(At(61), 1, kWaiting, true);
  EXPECT_FALSE(stop.Look(At(62), 1, kStepping, true));
  EXPECT_FALSE(stop.Look(At(62 + 5 + 2 * 1), 1, kStepping, true));
  EXPECT_TRUE(stop.Look(At(62 + 5 + 2 * 1 + 1), 1, kStepping, true));
}

}  // namespace
}  // namespace ddprun
