#include "rendezvous/core/transitions.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/pair.h"

namespace ddprun {
namespace {

struct Transitions : PairOfNodes {
  void SetUp() override { Form(); }
};

// Other workers of that node may run on for as long as they like.
TEST_F(Transitions, TheFirstFailureStopsTheWorld) {
  a.report.failures = {Failure(Exited{1})};
  a.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

// Why it stops them may follow.
TEST_F(Transitions, ANodeThatStopsItsWorkersStopsTheWorld) {
  a.report.hosting = Hosting::kStopping;
  a.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

TEST_F(Transitions, AnotherServersBeatSaysNothing) {
  const Time expires = scenario.state.nodes.at({"n0", {1}}).expires;
  a.report.term = {9};
  a.report.beat = At(2s).time_since_epoch().count();
  a.Says(At(2s));
  EXPECT_EQ(scenario.state.nodes.at({"n0", {1}}).expires, expires);
}

// Failures without progress are spaced out.
TEST_F(PairOfNodes, NoWorldIsFormedInThePauseAfterFailures) {
  scenario.state.budget.next_start = At(5s);
  a.Says(At(1s));
  b.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  a.Says(At(4s));
  b.Says(At(4s));
  scenario.Tick(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

}  // namespace
}  // namespace ddprun
