#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/recovery_fixture.h"

namespace ddprun {
namespace {

TEST_F(Recovering, ASuccessReportedAgainIsNotLost) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  Restart();
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_TRUE(a.IsTold<ddprun::Wait>(At(5s)));
  b.Ends(Outcome::kSucceeded, {}, At(6s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(6s))).exit_code, 0);
}

TEST_F(Recovering, AllSucceededEndsTheRun) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  b.report.hosting = Hosting::kNothing;
  b.report.outcome = Outcome::kSucceeded;
  b.report.floor = {1};
  Restart();
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kSucceeded);
}

// A node with other options, which became the server or was heard by it first, took part in the
// next world, and a spare that was heard before the nodes of the world was refused.
TEST_F(Recovering, TheOptionsOfTheRunAreThoseOfTheNewestWorld) {
  Restart();
  Node wrong(scenario, "n9", {.min_nodes = 2, .max_nodes = 3, .fence_after = 10s});
  Node spare(scenario, "n8", kTwo);
  wrong.Says(At(5s));
  spare.report.term = {1};
  spare.Says(At(5s));
  a.Says(At(5s));
  EXPECT_TRUE(wrong.IsTold<ddprun::Wait>(At(5s)));
  b.Says(At(5s));
  EXPECT_EQ(*scenario.state.spec, kTwo);
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(std::get<Finish>(wrong.Told(At(5s))).ending, Ending::kRefused);
  EXPECT_EQ(spare.Waits(At(5s)).what, WaitFor::kSpare);
}

// Its peer's workers were stopped, since it was refused and its place remained empty.
TEST_F(Recovering, ANodeThatHasFinishedKeepsItsPlaceWhereANodeWithOtherOptionsIsHeardFirst) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  Restart();
  Node wrong(scenario, "n9", {.min_nodes = 2, .max_nodes = 3});
  wrong.Says(At(5s));
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(a.Waits(At(5s)).what, WaitFor::kPeers);
}

// A newer world, which this server cannot reach, may have taken its checkpoints over. So "do not
// restart" may only say that the world is old.
TEST_F(Recovering, DoNotRestartIsNotTheRunsEndWhereItsWorldMayBeAnOldOne) {
  Form(kElastic);
  Restart();
  WorkerFailure refused = Failure(Exited{76});
  refused.said_hello = true;
  a.report.hosting = Hosting::kNothing;
  a.report.outcome = Outcome::kFailed;
  a.report.failures = {refused};
  a.report.floor = {1};
  a.Says(At(5s));
  a.Hears(At(7s)).Says(At(7s));
  scenario.Pass(At(8s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
}

// The old server may have known a loss that this one cannot: the budget is spared.
TEST_F(Recovering, AFailureFoundUsesNoRestart) {
  scenario.state.budget.used = 1;
  a.report.restarts_used = 1;
  Restart();
  a.report.hosting = Hosting::kNothing;
  a.report.outcome = Outcome::kFailed;
  a.report.failures = {Failure(Exited{3})};
  a.report.floor = {1};
  HearUntilALeaseIsOver();
  EXPECT_EQ(std::get<Stop>(b.Told(At(8s))).cause, StopCause::kFailure);
  b.Ends(Outcome::kStopped, {}, At(9s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.budget.used, 1u);
  EXPECT_GT(scenario.state.world->generation, Generation{1});
}

TEST_F(Recovering, ANewcomerTakesAMissingOnesPlace) {
  Restart();
  b.Says(At(5s));
  b.Hears(At(7s)).Says(At(7s));
  scenario.Pass(At(8s));
  b.Ends(Outcome::kStopped, {}, At(9s));
  Node c(scenario, "n9", kTwo, 7);
  c.Says(At(9s));
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(std::get<ddprun::Run>(c.Told(At(9s))).placement.group_rank, 0u);
  EXPECT_EQ(std::get<ddprun::Run>(b.Told(At(9s))).placement.group_rank, 1u);
}

TEST_F(Recovering, NoNodeWithWorkersMeansGatheringAfterALease) {
  Scenario fresh;
  fresh.config.term = {2};
  Node c(fresh, "n0", kElastic);
  c.report.term = {1};
  c.Says(At(5s));
  EXPECT_EQ(fresh.state.phase, Phase::kRecovering);
  c.Hears(At(7s)).Says(At(7s));
  fresh.Pass(At(8s));
  EXPECT_EQ(fresh.state.phase, Phase::kGathering);
  EXPECT_EQ(c.Waits(At(8s)).what, WaitFor::kLastCall);
}

// Such a node will exit whatever a new server says, so no world may be formed with it.
TEST_F(Recovering, ANodeThatKnowsAnEndTakesNoPart) {
  Scenario fresh;
  fresh.config.term = {2};
  Node c(fresh, "n0", kElastic);
  c.report.term = {1};
  c.report.echo = Finish{Ending::kSucceeded, 0, "all workers finished", {}};
  c.Says(At(5s));
  for (Duration t = 6s; t < 20s; t += 2s) {
    fresh.Pass(At(t));
    c.Hears(At(t)).Says(At(t));
  }
  EXPECT_EQ(fresh.state.worlds_formed, 0u);
}

// A floor is a promise to an earlier server of the run.
TEST_F(Recovering, ANodeWithAFloorIsOfARunThatContinues) {
  Scenario fresh;
  fresh.config.term = {2};
  Node c(fresh, "n0", kElastic);
  c.report.floor = {3};
  c.Says(At(5s));
  EXPECT_EQ(fresh.state.phase, Phase::kRecovering);
}

// A node that was cut off reports an older world first, while all others run the newer one.
TEST_F(Recovering, ANewerWorldTakesItBack) {
  Form(kElastic);
  Restart();
  Node old(scenario, "n9", kElastic, 9);
  old.report = a.report;
  old.report.node = "n9";
  old.report.placement->generation = {1};
  old.report.placement->group_size = 1;
  old.report.placement->group_rank = 0;
  old.report.placement->world_size = 1;
  old.report.placement->world_id = {77};
  old.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  a.report.placement->generation = b.report.placement->generation = {2};
  a.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
  EXPECT_EQ(std::get<Stop>(old.Told(At(5s))).cause, StopCause::kSuperseded);
}

// Two nodes of an older world, which were cut off while others formed a newer one, may report
// first. (Seed 591197348774: with theirs ended, a world was formed beside the newer one's workers.)
TEST_F(Recovering, AnEndedWorldMayHaveBeenFollowedByANewerOne) {
  Restart();
  for (Node* const node : {&a, &b}) {
    node->report.hosting = Hosting::kNothing;
    node->report.outcome = Outcome::kStopped;
    node->report.floor = {1};
    node->Says(At(5s));
  }
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  EXPECT_EQ(*a.Waits(At(5s)).remaining, 3s);
  Node c(scenario, "n2", kTwo, 3);
  Node d(scenario, "n3", kTwo, 4);
  std::uint32_t rank = 0;
  for (Node* const node : {&c, &d}) {
    node->report.term = {1};
    node->report.hosting = Hosting::kWorkers;
    node->report.placement = a.report.placement;
    node->report.placement->generation = {2};
    node->report.placement->world_id = {88};
    node->report.placement->group_rank = node->report.placement->first_rank = rank++;
    node->Says(At(6s));
  }
  ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->id, WorldId{88});
}

// A planned stop that the old server began keeps its time to save.
TEST_F(Recovering, TheCauseThatNodesHeardStays) {
  a.report.hosting = b.report.hosting = Hosting::kStopping;
  a.report.echo = b.report.echo = Stop{{1}, scenario.state.world->id, StopCause::kScaleUp};
  Restart();
  HearUntilALeaseIsOver();
  EXPECT_EQ(std::get<Stop>(a.Told(At(8s))).cause, StopCause::kScaleUp);
}

// The old server reported how the run ended, so its success counts although it is gone.
TEST_F(Recovering, ANodeThatKnewTheEndAndLeftStillCounts) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  Restart();
  a.report.echo = Finish{Ending::kSucceeded, 0, "all workers finished", {}};
  a.Says(At(5s));
  b.report.hosting = Hosting::kNothing;
  b.report.placement.reset();
  b.report.floor = {};
  b.Says(At(6s));
  scenario.Pass(At(8s));  // Its lease is over at the moment at which the others are given up.
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  EXPECT_EQ(scenario.state.world->generation, Generation{1});
}

// A rank that was late then may have continued, so all must report before one is blamed.
TEST_F(Recovering, NoNodeIsBlamedForEarlierWords) {
  Restart();
  a.report.progress_groups = b.report.progress_groups = {{5, "", 0, 1, 1, 7s}};
  a.report.hung_rank = 0;
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.hang.enquiry, std::nullopt);
}

TEST_F(Recovering, AWorkersLastWordCountsBeforeItsTextsHaveCome) {
  Restart();
  WorkerFailure last = Failure(Exited{76});
  last.said_hello = true;
  last.last_lines = "the data is damaged";
  a.report.hosting = b.report.hosting = Hosting::kNothing;
  a.report.floor = b.report.floor = {1};
  a.report.outcome = b.report.outcome = Outcome::kFailed;
  a.report.failures = {last};
  HearUntilALeaseIsOver();
  ASSERT_EQ(scenario.state.phase, Phase::kFailed);
  EXPECT_EQ(scenario.state.outcome->exit_code, 76);
}

TEST_F(Recovering, ANodeThatClaimsEveryPlaceHasOne) {
  Restart();
  a.Says(At(5s));
  a.report.placement->group_rank = 1;
  a.report.placement->first_rank = 1;
  a.Hears(At(7s)).Says(At(7s));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  a.Ends(Outcome::kStopped, {}, At(7s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
}

TEST_F(Recovering, ALostNodeLeavesItsPlace) {
  Form(kElastic);
  Restart();
  a.Says(At(5s));
  a.Closes(At(5'100ms));
  scenario.Pass(At(5'300ms));
  EXPECT_TRUE(scenario.state.recovery.places.empty());
  b.Says(At(6s));
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
}

TEST_F(Recovering, AnOutcomeInTheClaimIsReportedAlike) {
  scenario.config.claims = true;
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  b.Ends(Outcome::kSucceeded, {}, At(4s));
  const EndedRun ended =
      ToRemember("run", scenario.state.newest, *scenario.state.outcome, scenario.config.term);
  Restart();
  scenario.state = Restore(ended, At(5s));
  EXPECT_EQ(std::get<Finish>(b.Says(At(5s)).Told(At(5s))).ending, Ending::kSucceeded);
  // A node that never heard of this run must not believe that its own work has succeeded.
  Node late(scenario, "n7", kTwo);
  EXPECT_EQ(std::get<Finish>(late.Says(At(5s)).Told(At(5s))).ending, Ending::kEnded);
}

TEST_F(Recovering, APausedServerGivesTheLeaseAgain) {
  Restart();
  a.Says(At(5s));
  scenario.Tick(At(60s));  // Asked to be woken at 8 s.
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  b.Says(At(60s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST(Term, OfAServerWhoseClockWentBackIsRaised) {
  EXPECT_EQ(TermAfter({100}, {90}), Term{100});
  EXPECT_EQ(TermAfter({100}, {100}), Term{100});
  EXPECT_EQ(TermAfter({100}, {200}), Term{208});
  EXPECT_EQ(TermAfter({100}, {~std::uint64_t{0}}), Term{100});
}

// ---- A server that died with its node's agent ----
// Its guard has seen that no process of it is left, so the other nodes need not wait for it.
struct AfterDeath : Recovering {
  void Die(const NodeKey& key, WorldId world, std::optional<std::uint32_t> group_rank) {
    Restart();
    scenario.state.recovery.died = Died{key, world, group_rank};
  }
  NodeKey KeyOf(const Node& node) const { return {node.report.node, node.report.incarnation}; }
};

TEST_F(AfterDeath, ANodeThatIsGoneIsNotWaitedFor) {
  Form(kElastic);
  Die(KeyOf(a), scenario.state.world->id, 0);
  b.Says(At(5s));
  EXPECT_EQ(std::get<Stop>(b.Told(At(5s))).cause, StopCause::kNodeLost);
  EXPECT_EQ(scenario.state.world->members[0].key, KeyOf(a));
  b.Ends(Outcome::kStopped, {}, At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->members.size(), 1u);
  EXPECT_EQ(scenario.state.budget.used, 0u);
}

TEST_F(AfterDeath, ANodeThatIsGoneNeedsNoFence) {
  RunSpec fenced = kElastic;
  fenced.fence_after = 60s;
  Form(fenced);
  Die(KeyOf(a), scenario.state.world->id, 0);
  b.Says(At(5s));
  b.Ends(Outcome::kStopped, {}, At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

// The node hosted the server and had no place in the world.
TEST_F(AfterDeath, OfASpareEveryPlaceIsWaitedForAndNothingElse) {
  Form(kElastic);
  Die({"n7", {7}}, scenario.state.world->id, std::nullopt);
  b.Ends(Outcome::kStopped, {}, At(5s));
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  a.Ends(Outcome::kStopped, {}, At(6s));
  a.Says(At(6s));
  EXPECT_NE(scenario.state.phase, Phase::kRecovering);
}

// In another world than the guard's, the missing node need not be the one that died. It may still
// live and report later.
TEST_F(AfterDeath, InAnotherWorldEveryPlaceIsWaitedFor) {
  Form(kElastic);
  Die(KeyOf(a), WorldId{77}, 0);
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  Die(KeyOf(a), b.report.placement->world_id, 9);  // A place that it cannot have had.
  b.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
}

}  // namespace
}  // namespace ddprun
