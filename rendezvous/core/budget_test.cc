// What a worker's failure costs, and when another restart would not help.
#include "rendezvous/core/judgement.h"

#include <gtest/gtest.h>

#include "rendezvous/core/roster.h"
#include "rendezvous/core/testing/invariants.h"
#include "rendezvous/core/testing/story.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""s;

// One node whose worker fails again and again.
struct Failing : testing::Test {
  Story story;
  RunShape shape{.max_restarts = 100, .restart_window = Duration{0}};
  std::optional<Node> node;
  Time now = At(0s);

  void Begin() {
    node.emplace(story, "n0", shape);
    node->Says(now);
  }
  void Asks(std::uint64_t step, Duration after) {
    WorkerFailure failure = Failure(Exited{75});
    failure.said_hello = true;
    Fail(step, after, failure);
  }
  // Runs the world, reaches `step`, fails `after` later.
  void Fail(std::uint64_t step, Duration after, const WorkerFailure& failure = Failure(Exited{3})) {
    node->Hosts(now);
    now += after;
    story.state.nodes.begin()->second.expires = now + 1s;  // It has been heard of meanwhile.
    RefileAll(story.state, story.config);
    node->report.progress = step;
    node->Ends(Outcome::kFailed, {failure}, now);
    node->report.progress = 0;
    EXPECT_EQ(BrokenInvariant(story.state, story.config, now), std::nullopt);
  }
  const Finish& End() const { return *story.state.outcome; }
};

TEST_F(Failing, WithoutAWindowEveryFailureOfTheRunCounts) {
  shape.max_restarts = 2;
  Begin();
  Fail(0, 10min);
  Fail(0, 10min);
  EXPECT_TRUE(story.Said("restarting all workers (2 of 2)"));
  Fail(0, 10min);
  EXPECT_EQ(End().exit_code, 3);
  EXPECT_NE(End().text.find("2 of 2 restarts are used"), std::string::npos);
}

TEST_F(Failing, WithAWindowOldFailuresAreForgiven) {
  shape.max_restarts = 2;
  shape.restart_window = 60s;
  Begin();
  for (int i = 0; i < 10; ++i) {
    Fail(0, 31s);
  }
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(story.state.budget.used, 10u);  // Workers see every restart.
  EXPECT_TRUE(story.Said("(2 of 2 within " + FormatDuration(60s) + ")"));
  Fail(0, 1s);
  EXPECT_EQ(End().exit_code, 3);
  EXPECT_NE(End().text.find("--restart-window=" + FormatDuration(60s)), std::string::npos);
}

TEST_F(Failing, ThreeFailuresWithoutProgressEndTheRun) {
  Begin();
  Fail(500, 1s);
  Fail(480, 1s);  // Resumed at its checkpoint, and died before it got as far again.
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  Fail(500, 1s);
  EXPECT_EQ(End().exit_code, 76);
  EXPECT_NE(End().text.find("3 times in a row without getting beyond step 500"), std::string::npos);
  EXPECT_EQ(story.state.budget.used, 2u);
}

TEST_F(Failing, ProgressBetweenFailuresIsNoCrashLoop) {
  Begin();
  for (std::uint64_t i = 1; i <= 20; ++i) {
    Fail(i, 1s);
  }
  EXPECT_EQ(story.state.phase, Phase::kRunning);
}

// Where no worker tells its steps nothing follows from their absence.
TEST_F(Failing, ASilentProgramHasItsWholeBudget) {
  Begin();
  for (int i = 0; i < 100; ++i) {
    Fail(0, 1s);
  }
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  Fail(0, 1s);
  EXPECT_EQ(End().exit_code, 3);
}

TEST_F(Failing, TheLimitCanBeSwitchedOff) {
  shape.crash_loop_limit = 0;
  Begin();
  for (int i = 0; i < 20; ++i) {
    Fail(7, 1s);
  }
  EXPECT_EQ(story.state.phase, Phase::kRunning);
}

// The worker's own code is the better news when the budget is spent as well.
TEST_F(Failing, ASpentBudgetIsToldFirst) {
  shape.max_restarts = 2;
  Begin();
  Fail(7, 1s);
  Fail(7, 1s);
  Fail(7, 1s);
  EXPECT_EQ(End().exit_code, 3);
}

// Began from what counts no more: nobody's fault. Else a worker that asks each time would be
// started for ever.
TEST_F(Failing, WhoAsksToBeStartedAgainIsExcusedOnce) {
  shape.max_restarts = 2;
  Begin();
  Fail(0, 1s);
  Asks(0, 1s);
  EXPECT_TRUE(story.Said("has stopped (rank 0"));
  EXPECT_TRUE(story.Said("ended with exit code 75: it asks to be started again; not charged)"));
  EXPECT_EQ(story.state.budget.used, 1u);
  Asks(0, 1s);
  EXPECT_EQ(story.state.budget.used, 2u);
  Asks(0, 1s);
  EXPECT_EQ(End().exit_code, 1);
  EXPECT_NE(End().text.find("2 of 2 restarts are used"), std::string::npos);
}

TEST_F(Failing, AnExcuseNeedsNoBudget) {
  shape.max_restarts = 1;
  Begin();
  Fail(0, 1s);
  Asks(0, 1s);
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  Fail(0, 1s);
  EXPECT_EQ(End().exit_code, 3);
}

// No world came before it that could have left what counts no more.
TEST_F(Failing, ARunsFirstWorldIsNotExcused) {
  shape.max_restarts = 0;
  Begin();
  Asks(7, 1s);
  EXPECT_EQ(End().exit_code, 1);
  EXPECT_NE(End().text.find("no restarts are allowed"), std::string::npos);
}

TEST_F(Failing, AnExcuseIsNoProgress) {
  Begin();
  Fail(7, 1s);
  Asks(7, 1s);
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  Fail(7, 1s);
  EXPECT_EQ(End().exit_code, 76);
  EXPECT_EQ(story.state.budget.used, 1u);
}

TEST_F(Failing, ACrashLoopThatEndsAskingIsOneToo) {
  Begin();
  Fail(7, 1s);
  Fail(7, 1s);
  Asks(7, 1s);
  EXPECT_EQ(End().exit_code, 76);
}

TEST_F(Failing, ALostNodeIsNoIncident) {
  Begin();
  Fail(7, 1s);
  Fail(7, 1s);
  node->Hosts(now);
  node->report.leaving = Leaving::kLeave;  // A change of membership, whatever else failed.
  Fail(7, 1s);
  EXPECT_EQ(story.state.budget.stuck, 2u);
  EXPECT_EQ(story.state.budget.used, 2u);
}

}  // namespace
}  // namespace ddprun
