// How long a world that has to stop may take.
#include <gtest/gtest.h>

#include "rendezvous/core/testing/pair.h"

namespace ddprun {
namespace {

// Two nodes that host generation 1.
struct Drained : PairOfNodes {
  void SetUp() override { Form(); }
};

TEST_F(Drained, WorkersThatCannotBeStoppedLoseTheirNode) {
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(1s));
  b.report.hosting = Hosting::kStopping;
  for (Duration t = 2s; t <= 9s; t += 1s) {
    a.Hears(At(t)).Says(At(t));
    b.Hears(At(t)).Says(At(t));
    scenario.Pass(At(t));
  }
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);  // 1 s + grace 5 s + lease 3 s.
  EXPECT_EQ(scenario.state.budget.used, 0u);
  EXPECT_EQ(std::get<Stop>(b.Told(At(9s))).cause, StopCause::kDeclaredLost);
}

TEST_F(Drained, WorkersThatSaveAfterAFailureHaveTheShutdownTimeout) {
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(1s));
  b.report.hosting = Hosting::kStopping;
  b.report.saving = true;
  for (Duration t = 2s; t <= 34s; t += 1s) {
    EXPECT_EQ(scenario.state.phase, Phase::kDraining);
    a.Hears(At(t)).Says(At(t));
    b.Hears(At(t)).Says(At(t));
    scenario.Pass(At(t));
  }
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);  // 1 s + timeout 30 s + lease 3 s.
}

// A rank that is blocked in a collective with the lost node never sees TERM.
TEST_F(Drained, ALossDuringAPlannedDrainShortensTheGrace) {
  a.report.leaving = Leaving::kLeave;
  a.report.hosting = Hosting::kStopping;
  a.Says(At(1s));
  EXPECT_EQ(std::get<Stop>(b.Told(At(1s))).cause, StopCause::kLeave);
  a.Closes(At(2s));
  scenario.Pass(At(2'200ms));
  EXPECT_EQ(std::get<Stop>(b.Told(At(3s))).cause, StopCause::kNodeLost);
  EXPECT_GE(*NextWake(scenario.state, scenario.config), At(2'200ms));
}

}  // namespace
}  // namespace ddprun
