// Nodes that their node checks refuse, or look at: no world has them, and who waits hears of it.
#include <gtest/gtest.h>

#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/scenario.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {
constexpr RunSpec kTwoOfThree{.min_nodes = 2, .max_nodes = 2, .max_restarts = 3, .last_call = 5s};

struct Unfit : testing::Test {
  Scenario scenario;
  Node a{scenario, "n0", kTwoOfThree};
  Node b{scenario, "n1", kTwoOfThree};
  Node c{scenario, "n2", kTwoOfThree};

  Node& Refuse(Node& node, const std::string& why, Time now) {
    node.report.checking = false;
    node.report.unfit = why;
    return node.Hears(now).Says(now);
  }
  // n0 and n1 run, n2 is a spare; then n0's worker fails, and its machine is looked at.
  void FailOnFirst() {
    FormWorld(At(0s), a, b);
    c.Says(At(0s));
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
    a.report.checking = true;
    a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(10s));
    b.Ends(Outcome::kStopped, {}, At(10s));
    c.Hears(At(10s)).Says(At(10s));
  }
  bool InWorld(const Node& node) const {
    return FindMember(scenario.state, {node.report.node, node.report.incarnation}) != nullptr;
  }
};

// The verdict may be a pass, and who trained before keeps its rank, its caches and its memory.
TEST_F(Unfit, ASpareWaitsForTheVerdictOnTheNodesThatTrainedBefore) {
  FailOnFirst();
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  EXPECT_EQ(b.Waits(At(10s)).what, WaitFor::kCheck);
  EXPECT_EQ(b.Waits(At(10s)).missing, std::vector<std::string>{"n0"});
  EXPECT_EQ(a.Waits(At(10s)).what, WaitFor::kCheck);
  Refuse(a, "", At(11s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_TRUE(InWorld(a));
  EXPECT_TRUE(InWorld(b));
}

TEST_F(Unfit, ARefusedNodeIsReplacedAtOnceAndSaidOnce) {
  FailOnFirst();
  Refuse(a, "GPU 3 is gone", At(11s));
  EXPECT_TRUE(scenario.Said("node n0 is refused by its node check: GPU 3 is gone"));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_FALSE(InWorld(a));
  EXPECT_TRUE(InWorld(c));
  Refuse(a, "GPU 3 is gone", At(12s));
  EXPECT_FALSE(scenario.Said("n0"));
  EXPECT_EQ(a.Waits(At(12s)).what, WaitFor::kUnfit);
  const RunStatus status = StatusOf(scenario.state, scenario.config, At(12s));
  EXPECT_EQ(status.nodes.back().node, "n0");
  EXPECT_EQ(status.nodes.back().state, "unfit");
  EXPECT_EQ(status.nodes.back().reason, "GPU 3 is gone");
}

// A check may take its minute: a spare that could train does not.
TEST_F(Unfit, AVerdictIsNotWaitedForLongerThanALastCallLasts) {
  FailOnFirst();
  for (const Duration now : {Duration(12s), Duration(14s)}) {
    for (Node* const node : {&a, &b, &c}) {
      node->Hears(At(now)).Says(At(now));
    }
  }
  scenario.Pass(At(14'999ms));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  scenario.Pass(At(15s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_FALSE(InWorld(a));
}

TEST_F(Unfit, OtherNodesHearTheBeginningOfALongReason) {
  Refuse(a, std::string(kMaxUnfit, 'x'), At(0s));
  b.Says(At(0s));
  EXPECT_EQ(b.Waits(At(0s)).unfit,
            std::vector<std::string>{"n0 (node check: " + std::string(97, 'x') + "...)"});
}

TEST_F(Unfit, ARunThatIsTooFewForItNamesTheRefusedNodeAndTheReason) {
  const std::string kept_out = " of 2 are here; kept out: n0 (node check: no InfiniBand)";
  const auto waits_for = [&] {
    return StatusOf(scenario.state, scenario.config, At(0s)).waits_for;
  };
  Refuse(a, "no InfiniBand", At(0s));
  EXPECT_NE(waits_for().find("0" + kept_out), std::string::npos) << waits_for();
  b.Says(At(0s));
  EXPECT_NE(waits_for().find("1" + kept_out), std::string::npos) << waits_for();
  EXPECT_NE(Describe(b.Waits(At(0s))).find("1" + kept_out), std::string::npos);
}

TEST_F(Unfit, AnEndForWantOfNodesNamesTheRefusedOnes) {
  Refuse(a, "no InfiniBand", At(0s));
  b.Says(At(0s));
  scenario.state.spec->join_timeout = 1s;
  scenario.Pass(At(1s));
  ASSERT_TRUE(scenario.state.outcome.has_value());
  EXPECT_EQ(scenario.state.outcome->exit_code, 69);
  EXPECT_NE(scenario.state.outcome->text.find("kept out: n0 (node check: no InfiniBand)"),
            std::string::npos);
}

// It may have been chosen by another server, and have failed its check before it heard of that.
TEST_F(Unfit, AWorldWithOneThatIsRefusedStopsAsForOneThatLeaves) {
  a.Says(At(0s));
  b.Says(At(0s));
  c.Says(At(0s));
  b.Hosts(At(0s));
  ASSERT_TRUE(InWorld(a));
  Refuse(a, "bad", At(1s));
  ASSERT_EQ(scenario.state.phase, Phase::kDraining);
  EXPECT_EQ(std::get<Stop>(b.Told(At(1s))).cause, StopCause::kLeave);
  a.report.floor = {1};
  a.Hears(At(1s)).Says(At(1s));
  b.Ends(Outcome::kStopped, {}, At(1s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_FALSE(InWorld(a));
  EXPECT_EQ(scenario.state.budget.used, 0u);
}

// One that passes again is like one that comes: here the world is complete, so it is a spare.
TEST_F(Unfit, ANodeThatPassesAgainIsWelcomeAndReported) {
  FailOnFirst();
  Refuse(a, "bad", At(11s));
  Refuse(a, "", At(12s));
  EXPECT_TRUE(scenario.Said("node n0 passes its node check again"));
  EXPECT_EQ(a.Waits(At(12s)).what, WaitFor::kSpare);
}

// The nodes that trained before continue at once; the outsider makes the world grow if it is fit.
TEST_F(Unfit, TheVerdictOnAnOutsiderIsNotWaitedFor) {
  RunSpec spec = kTwoOfThree;
  spec.max_nodes = 3;
  spec.last_call = 1s;
  for (Node* const node : {&a, &b, &c}) {
    node->report.spec = spec;
  }
  a.Says(At(0s));
  b.Says(At(0s));
  scenario.Pass(At(1s));
  a.Hosts(At(1s));
  b.Hosts(At(1s));
  c.report.checking = true;
  c.Says(At(1s));
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(2s));
  b.Ends(Outcome::kStopped, {}, At(2s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_FALSE(InWorld(c));
}

TEST_F(Unfit, AFactThatTurnsBadIsSaidOnceAndAgainWhenItIsGood) {
  a.Says(At(0s));
  a.report.facts = {{"gpu3", "Xid 74", true}, {"links", "2 up", false}};
  a.Says(At(1s));
  EXPECT_TRUE(scenario.Said("node n0: gpu3 Xid 74"));
  a.report.facts = {{"gpu3", "Xid 74, 2 times", true}, {"links", "2 up", false}};
  a.Says(At(2s));
  EXPECT_FALSE(scenario.Said("gpu3"));
  EXPECT_EQ(StatusOf(scenario.state, scenario.config, At(2s)).nodes.front().facts, a.report.facts);
  a.report.facts = {{"links", "2 up", false}};
  a.Says(At(3s));
  EXPECT_TRUE(scenario.Said("node n0: gpu3 is well again"));
  EXPECT_FALSE(scenario.Said("links"));
}

// A report that is full of bad facts may leave out others.
TEST_F(Unfit, AFactThatWasPushedOutIsNotWellAgain) {
  const auto bad = [](std::size_t first, std::size_t count) {
    HostFacts facts;
    for (std::size_t i = first; i < first + count; ++i) {
      facts.push_back({"gpu" + std::to_string(i), "Xid 74", true});
    }
    return facts;
  };
  a.Says(At(0s));
  a.report.facts = bad(1, kMaxFacts);
  a.Says(At(1s));
  a.report.facts = bad(0, kMaxFacts);
  a.Says(At(2s));
  EXPECT_TRUE(scenario.Said("gpu0 Xid 74"));
  EXPECT_FALSE(scenario.Said("well again"));
  a.report.facts = bad(1, kMaxFacts - 1);
  a.Says(At(3s));
  EXPECT_TRUE(scenario.Said("gpu0 is well again"));
  a.report.facts.back() = {"links", "2 up", false};
  a.report.facts.push_back({"memory", "none waits", false});  // Full, but not of bad ones.
  a.Says(At(4s));
  EXPECT_TRUE(scenario.Said("gpu" + std::to_string(kMaxFacts - 1) + " is well again"));
}

// No other node can come. A check may be over before the answer to the first report has come.
TEST_F(Unfit, ARunOfOneNodeEndsWithItThoughItHasHeardNothingYet) {
  scenario.config.alone = true;
  a.report.spec.min_nodes = a.report.spec.max_nodes = 1;
  a.report.checking = true;
  a.Says(At(0s));
  EXPECT_FALSE(scenario.state.outcome);
  a.report.checking = false;
  a.report.unfit = "no InfiniBand";
  a.Says(At(0s));
  const Finish told = std::get<Finish>(a.Told(At(0s)));
  EXPECT_EQ(told.ending, Ending::kFailed);
  EXPECT_EQ(told.exit_code, 69);
  EXPECT_NE(told.text.find("only node is refused by its node check: no InfiniBand"),
            std::string::npos);
}

// Else one that is refused would make every node wait for a last call that it never answers.
TEST_F(Unfit, ARefusedNodeIsNotWaitedForWhereFewerAreEnough) {
  RunSpec spec = kTwoOfThree;
  spec.min_nodes = 1;
  for (Node* const node : {&a, &b}) {
    node->report.spec = spec;
    node->Says(At(0s));
  }
  a.Hosts(At(0s));
  b.Hosts(At(0s));
  a.report.checking = true;
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(10s));
  b.Ends(Outcome::kStopped, {}, At(10s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  Refuse(a, "bad", At(11s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->members.size(), 1u);
}

}  // namespace
}  // namespace ddprun
