#include "rendezvous/core/coordinator.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/pair.h"

namespace ddprun {
namespace {

// Two nodes that host generation 1.
struct Pair : PairOfNodes {
  void SetUp() override { Form(); }
};

// Otherwise a world could start below min_nodes, with a node that has gone again.
TEST(Coordinator, ALossBelowMinCancelsTheLastCall) {
  Scenario scenario;
  Node a(scenario, "n0", {.min_nodes = 2, .max_nodes = 3});
  Node b(scenario, "n1", {.min_nodes = 2, .max_nodes = 3});
  a.Says(At(0s));
  b.Says(At(0s));
  EXPECT_TRUE(scenario.state.last_call);
  b.Closes(At(1s));
  scenario.Pass(At(1'200ms));
  EXPECT_FALSE(scenario.state.last_call);
  EXPECT_EQ(a.Waits(At(2s)).what, WaitFor::kNodes);
}

// The host of the store may have succeeded already; its peers fail because it is gone.
TEST_F(Pair, TheLossOfANodeThatSucceededExcusesItsPeers) {
  scenario.state.budget.used = 1;
  a.Ends(Outcome::kSucceeded, {}, At(1s));
  a.Closes(At(1s));
  scenario.Pass(At(1'200ms));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  b.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(2s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
}

// An agent waits for the answer before it exits: a parked call would cost every run that time.
TEST_F(Pair, AnAcknowledgementIsAnsweredAtOnce) {
  a.Ends(Outcome::kSucceeded, {}, At(1s));
  b.Ends(Outcome::kSucceeded, {}, At(2s));
  a.Hears(At(2s)).Says(At(2s));
  EXPECT_FALSE(SameDirective(a.Told(At(2s)), *a.report.echo));
  b.report.hosting = Hosting::kStopping;  // Not yet able to go: parked, or it would spin.
  b.Hears(At(2s)).Says(At(2s));
  EXPECT_TRUE(SameDirective(b.Told(At(2s)), *b.report.echo));
}

// A node that can send but gets no answer returns an old beat.
TEST_F(Pair, ANodeThatHearsNothingIsAsLostAsASilentOne) {
  for (Duration t = 1s; t <= 3s; t += 1s) {
    a.Hears(At(t)).Says(At(t));
    b.Says(At(t));
  }
  scenario.Pass(At(3s));
  EXPECT_TRUE(scenario.Said("node n1 is lost"));
}

// The promises may all be waiting in the socket when a paused server continues.
TEST_F(Pair, ALateTickForgivesADrainToo) {
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(1s));
  scenario.Tick(At(60s));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  EXPECT_FALSE(scenario.Said("lost"));
}

TEST_F(Pair, ANodeThatNeverHostsIsLost) {
  Scenario other;
  Node slow(other, "n0", {});
  slow.Says(At(0s));
  for (Duration t = 1s; t <= 31s; t += 1s) {
    slow.Hears(At(t)).Says(At(t));
    other.Pass(At(t));
  }
  EXPECT_EQ(std::get<Stop>(slow.Told(At(31s))).cause, StopCause::kDeclaredLost);
}

TEST_F(Pair, NoWorkersRemainOnceAllHaveLeftInOrder) {
  for (Node* node : {&a, &b}) {
    EXPECT_FALSE(NoWorkersRemain(scenario.state));
    node->report.leaving = Leaving::kLeave;
    node->Ends(Outcome::kStopped, {}, At(1s));
  }
  for (Node* node : {&a, &b}) {
    EXPECT_FALSE(NoWorkersRemain(scenario.state));
    node->Hears(At(1s)).Says(At(1s));
  }
  EXPECT_TRUE(NoWorkersRemain(scenario.state));
}

TEST_F(Pair, OfANodeThatIsLostWorkersMayRemain) {
  a.report.leaving = Leaving::kLeave;
  a.Ends(Outcome::kStopped, {}, At(1s));
  a.Hears(At(1s)).Says(At(1s));
  scenario.Pass(At(10s));
  ASSERT_TRUE(scenario.state.nodes.at({"n1", {1}}).lost);
  EXPECT_FALSE(NoWorkersRemain(scenario.state));
}

TEST_F(Pair, AFailureAfterAPlannedDrainBeganIsItsConsequence) {
  a.report.leaving = Leaving::kLeave;
  a.Ends(Outcome::kStopped, {}, At(1s));
  WorkerFailure last_word = Failure(Exited{76});
  last_word.said_hello = true;
  b.Ends(Outcome::kFailed, {last_word}, At(2s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  EXPECT_EQ(scenario.state.budget.used, 0u);
}

TEST_F(Pair, AStrangeWorldIsStoppedAndNeverMet) {
  Node c(scenario, "n2", kTwo);
  c.report.hosting = Hosting::kWorkers;
  c.report.placement = Placement{.term = {9}, .generation = {7}, .world_id = {77}};
  c.Says(At(1s));
  const Stop stop = std::get<Stop>(c.Told(At(1s)));
  EXPECT_EQ(stop.generation, Generation{7});
  EXPECT_EQ(stop.cause, StopCause::kSuperseded);
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(1s));
  b.Ends(Outcome::kStopped, {}, At(1s));
  EXPECT_EQ(scenario.state.world->generation, Generation{8});
}

// Two servers may give a number twice.
TEST_F(Pair, AMemberThatRunsAnotherWorldOfTheSameNumberIsStopped) {
  a.report.placement->world_id = {77};
  a.Says(At(1s));
  EXPECT_EQ(std::get<Stop>(a.Told(At(1s))).cause, StopCause::kSuperseded);
}

// Other workers of that node may run on for as long as they like.
TEST_F(Pair, TheFirstFailureStopsTheWorld) {
  a.report.failures = {Failure(Exited{1})};
  a.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

// Why it stops them may follow.
TEST_F(Pair, ANodeThatStopsItsWorkersStopsTheWorld) {
  a.report.hosting = Hosting::kStopping;
  a.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

TEST_F(Pair, AnotherServersBeatSaysNothing) {
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

// ---- How long a world that has to stop may take ----
TEST_F(Pair, WorkersThatCannotBeStoppedLoseTheirNode) {
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

TEST_F(Pair, WorkersThatSaveAfterAFailureHaveTheShutdownTimeout) {
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
TEST_F(Pair, ALossDuringAPlannedDrainShortensTheGrace) {
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
