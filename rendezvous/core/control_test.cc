#include "rendezvous/core/control.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {

struct Control : testing::Test {
  Scenario scenario;
  RunSpec spec{.min_nodes = 1, .max_nodes = 2};
  Node a{scenario, "n0", spec};
  Node b{scenario, "n1", spec};

  void SetUp() override {
    FormWorld(At(0s), a, b);
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  }
  void Ask(ControlVerb verb, const NodeId& node, Time now) {
    scenario.Feed(Controlled{verb, node}, now);
  }
};

TEST_F(Control, ADrainedNodeUsesNoRestartAndTheOthersContinue) {
  Ask(ControlVerb::kDrain, "n1", At(1s));
  EXPECT_EQ(std::get<Stop>(a.Told(At(1s))).cause, StopCause::kLeave);
  a.Ends(Outcome::kStopped, {}, At(2s));
  b.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_EQ(std::get<Finish>(b.Told(At(2s))).ending, Ending::kLeft);
  EXPECT_TRUE(a.IsTold<ddprun::Run>(At(2s)));
  EXPECT_EQ(scenario.state.budget.used, 0u);
}

TEST_F(Control, AStoppedRunEndsWith130) {
  Ask(ControlVerb::kStop, "", At(1s));
  EXPECT_EQ(std::get<Stop>(b.Told(At(1s))).cause, StopCause::kOperator);
  EXPECT_FALSE(std::get<Stop>(b.Told(At(1s))).interrupts);
  a.Ends(Outcome::kStopped, {}, At(2s));
  b.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(2s))).exit_code, 130);
}

// As if all workers were in front of one terminal.
TEST_F(Control, CtrlCOnOneNodeInterruptsTheWorkersOfAll) {
  a.report.leaving = Leaving::kStopRun;
  a.report.interrupted = true;
  a.Says(At(1s));
  EXPECT_TRUE(std::get<Stop>(b.Told(At(1s))).interrupts);
}

TEST(ControlBeforeAWorld, StopEndsAWaitingRunAtOnceAndDrainLetsANodeGo) {
  Scenario scenario;
  Node a(scenario, "n0", {.min_nodes = 2, .max_nodes = 2});
  a.Says(At(0s));
  scenario.Feed(Controlled{ControlVerb::kDrain, "n0"}, At(1s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(1s))).ending, Ending::kLeft);
  scenario.Feed(Controlled{ControlVerb::kStop, ""}, At(2s));
  EXPECT_EQ(scenario.state.phase, Phase::kFailed);
}

// A host's name means its node where it has one alone.
TEST(ControlOfHosts, ADrainTakesAHostsNameForItsOnlyNode) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 1, .max_nodes = 3};
  Node a(scenario, "n0#0", spec);
  Node b(scenario, "n1#0", spec);
  Node c(scenario, "n1#1", spec);
  a.Says(At(0s));
  b.Says(At(0s));
  const auto answer = [&](const NodeId& node) {
    return AnswerTo(scenario.state, Controlled{ControlVerb::kDrain, node});
  };
  EXPECT_EQ(answer("n1").text, "node n1#0 leaves the run 'run'; the others continue");
  EXPECT_FALSE(answer("n").accepted);
  c.Says(At(0s));
  EXPECT_FALSE(answer("n1").accepted);
  scenario.Feed(Controlled{ControlVerb::kDrain, "n0"}, At(1s));
  EXPECT_EQ(std::get<Stop>(a.Told(At(1s))).cause, StopCause::kLeave);
}

TEST(ControlOfHosts, NoNodeRestartsWhereTheOnlyNodeLeaves) {
  Scenario scenario;
  Node a(scenario, "n0#0", RunSpec{.min_nodes = 1, .max_nodes = 1});
  FormWorld(At(0s), a);
  scenario.Feed(Controlled{ControlVerb::kDrain, "n0"}, At(1s));
  EXPECT_TRUE(scenario.Said("node n0#0 leaves the run 'run'; the run ends: it has no other node"));
  a.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(2s))).ending, Ending::kLeft);
  EXPECT_TRUE(scenario.Said("a node leaves: no node is left"));
}

TEST(ControlOfHosts, NoNodeRestartsWhereTooFewStay) {
  Scenario scenario;
  Node a(scenario, "n0#0", RunSpec{.min_nodes = 2, .max_nodes = 2});
  Node b(scenario, "n1#0", RunSpec{.min_nodes = 2, .max_nodes = 2});
  FormWorld(At(0s), a, b);
  scenario.Feed(Controlled{ControlVerb::kDrain, "n1"}, At(1s));
  a.Ends(Outcome::kStopped, {}, At(2s));
  b.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_TRUE(scenario.Said("a node leaves: too few nodes are left, waiting for more"));
}

TEST_F(Control, AnswersSayWhatFollowsOrWhatIsWrong) {
  const auto answer = [&](ControlVerb verb, const NodeId& node) {
    return AnswerTo(scenario.state, Controlled{verb, node});
  };
  EXPECT_EQ(answer(ControlVerb::kDrain, "n1").text,
            "node n1 leaves the run 'run'; the others continue");
  EXPECT_EQ(answer(ControlVerb::kDrain, "n7").text,
            "the run 'run' has no node 'n7': its nodes are n0 n1");
  EXPECT_FALSE(answer(ControlVerb::kDrain, "n7").accepted);
  EXPECT_EQ(answer(ControlVerb::kStop, "").text,
            "the run 'run' stops; its workers have time to save (--shutdown-timeout)");
  scenario.state.spec->min_nodes = 2;
  EXPECT_EQ(answer(ControlVerb::kDrain, "n0").text,
            "node n0 leaves the run 'run'; 1 of at least 2 nodes is left: the run waits for more");
  Ask(ControlVerb::kDrain, "n1", At(1s));
  EXPECT_EQ(answer(ControlVerb::kDrain, "n0").text,
            "node n0 leaves the run 'run'; the run ends unless its server is on another host: it "
            "has no other node");
  Ask(ControlVerb::kStop, "", At(1s));
  a.Ends(Outcome::kStopped, {}, At(2s));
  b.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_EQ(answer(ControlVerb::kStop, "").text,
            "the run 'run' has ended: the run was stopped on request");
}

}  // namespace
}  // namespace ddprun
