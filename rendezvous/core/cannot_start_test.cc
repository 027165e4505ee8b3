// Nodes whose machine lacks what their workers need: no world has them, and the others hear why.
#include <gtest/gtest.h>

#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/scenario.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {
constexpr RunSpec kOfTwo{.min_nodes = 2, .max_nodes = 2, .max_restarts = 3, .last_call = 1s};
constexpr const char* kWhy = "node n1 cannot start its workers: no train.py";

struct LackingNodes : testing::Test {
  Scenario scenario;
  Node a{scenario, "n0", kOfTwo};
  Node b{scenario, "n1", kOfTwo};
  Node c{scenario, "n2", kOfTwo};

  void HaveShape(std::uint32_t min, std::uint32_t max) {
    for (Node* const node : {&a, &b, &c}) {
      node->report.spec.min_nodes = min;
      node->report.spec.max_nodes = max;
    }
  }
  static Node& Lacks(Node& node, Time now) {
    node.report.unfit = "no train.py";
    node.report.outcome = Outcome::kSpawnFailed;
    return node.Says(now);
  }
  static void Leaves(Node& node, Time now) {
    node.report.leaving = Leaving::kLeave;
    node.Hears(now).Says(now);
  }
  static void ExpectEnd(const Node& node, Time now) {
    const Finish end = std::get<Finish>(node.Told(now));
    EXPECT_EQ(end.ending, Ending::kFailed);
    EXPECT_EQ(end.exit_code, 2);
    EXPECT_NE(end.text.find(kWhy), std::string::npos) << end.text;
  }
};

// Else its peer waits for the join timeout, and learns nothing.
TEST_F(LackingNodes, EndsARunThatNeedsEveryNode) {
  a.Says(At(0s)).Hears(At(0s));
  Lacks(b, At(1s));
  EXPECT_EQ(scenario.state.worlds_formed, 0u);
  ExpectEnd(a, At(1s));
  ExpectEnd(b, At(1s));
}

// It may host the server: the others would find no server, and wait for the join timeout.
TEST_F(LackingNodes, TheOthersAreWaitedForAndHearWhyAtOnce) {
  Lacks(b, At(0s));
  const std::string waits = Describe(b.Waits(At(0s)));
  EXPECT_NE(waits.find("0 of 2 are here; kept out: n1 (cannot start its workers: no train.py)"),
            std::string::npos)
      << waits;
  a.Says(At(2s));
  ExpectEnd(a, At(2s));
  ExpectEnd(b, At(2s));
}

TEST_F(LackingNodes, NodesThatNeverComeAreWaitedForNoLongerThanItStays) {
  HaveShape(3, 3);
  a.Says(At(0s)).Hears(At(0s));
  Lacks(b, At(0s));
  EXPECT_FALSE(scenario.state.outcome);
  EXPECT_EQ(a.Waits(At(0s)).unfit.size(), 1u);
  Leaves(b, At(30s));
  ExpectEnd(a, At(30s));
  ExpectEnd(b, At(30s));
}

TEST_F(LackingNodes, ARunThatHasEnoughOthersContinuesWithoutIt) {
  HaveShape(1, 2);
  a.Says(At(0s)).Hears(At(0s));
  Lacks(b, At(0s));
  EXPECT_TRUE(scenario.Said(kWhy));
  const WaitReason waits = a.Waits(At(0s));
  EXPECT_EQ(waits.what, WaitFor::kLastCall);
  EXPECT_NE(Describe(waits).find("n1 (cannot start its workers: no train.py)"), std::string::npos);
  scenario.Pass(At(1s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->members.size(), 1u);
  const Finish end = std::get<Finish>(b.Told(At(1s)));
  EXPECT_EQ(end.ending, Ending::kRefused);
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_TRUE(a.IsTold<ddprun::Run>(At(1s)));
}

TEST_F(LackingNodes, TwoMembershipsOfOneNodeCountOnce) {
  HaveShape(2, 3);
  Node again{scenario, "n1", a.report.spec, 2};
  Lacks(b, At(0s));
  Lacks(again, At(0s));
  a.Says(At(0s));
  EXPECT_FALSE(scenario.state.outcome);
}

// A scheduler may give the run another machine in its place.
TEST_F(LackingNodes, AReplacementThatCannotEndsNoRunThatHadAWorld) {
  FormWorld(At(0s), a, b);
  b.Closes(At(10s));
  a.Hears(At(10s)).Says(At(10s));
  scenario.Pass(At(11s));
  a.Ends(Outcome::kStopped, {}, At(11s));
  ASSERT_EQ(scenario.state.phase, Phase::kGathering);
  Node replaced{scenario, "n1", kOfTwo, 2};
  Lacks(replaced, At(12s));
  EXPECT_FALSE(scenario.state.outcome);
  EXPECT_EQ(a.Waits(At(12s)).unfit.size(), 1u);
  Leaves(replaced, At(13s));
  EXPECT_FALSE(scenario.state.outcome);
  EXPECT_EQ(std::get<Finish>(replaced.Told(At(13s))).exit_code, 2);
  Node third{scenario, "n1", kOfTwo, 3};
  third.Says(At(13s));
  EXPECT_EQ(scenario.state.worlds_formed, 1u);
  replaced.Hears(At(13s)).Says(At(13s));
  EXPECT_EQ(scenario.state.worlds_formed, 2u);
}

}  // namespace
}  // namespace ddprun
