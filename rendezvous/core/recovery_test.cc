#include "rendezvous/core/recovery.h"

#include <gtest/gtest.h>

#include "rendezvous/core/describe.h"
#include "rendezvous/core/invariants.h"
#include "rendezvous/core/record.h"
#include "rendezvous/core/story.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr RunShape kTwo{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1};
constexpr RunShape kElastic{.min_nodes = 1, .max_nodes = 2, .max_restarts = 1};

// Two nodes that host generation 1 of a server with term 1, which then dies.
struct Recovering : testing::Test {
  Story story;
  Node a{story, "n0", kTwo};
  Node b{story, "n1", kTwo};
  std::optional<RunRecord> journal;  // The newest record that the dead server asked for.

  void SetUp() override { Form(kTwo); }
  void TearDown() override {
    EXPECT_EQ(BrokenInvariant(story.state, story.config, At(20s)), std::nullopt);
  }
  void Form(const RunShape& shape) {
    story.state = {};
    story.state.run_id = "run";
    story.config.journal = true;
    a.report.shape = b.report.shape = shape;
    a.report.term = b.report.term = {};
    a.Says(At(0s));
    b.Says(At(0s));
    journal = story.persist->record;
    a.Hosts(At(0s));
    b.Hosts(At(0s));
    ASSERT_EQ(story.state.phase, Phase::kRunning);
  }
  void RestartWithout(Time) {
    story.config.journal = false;
    story.config.term = {2};
    story.state = {};
    story.state.run_id = "run";
  }
  void RestartWith(Time now) {
    story.config.term = {2};
    story.state = Restore(*journal, now);
  }
};

TEST_F(Recovering, AWorldWhoseNodesAllReportGoesOn) {
  const World before = *story.state.world;
  RestartWithout(At(5s));
  a.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kRecovering);
  EXPECT_EQ(a.Waits(At(5s)).what, WaitFor::kRecovery);
  b.Says(At(5s));
  ASSERT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(std::get<ddprun::Run>(a.Told(At(5s))).placement, *a.report.placement);
  EXPECT_EQ(std::get<ddprun::Run>(b.Told(At(5s))).placement, *b.report.placement);
  EXPECT_EQ(story.state.world->id, before.id);
  EXPECT_EQ(story.state.world->size, before.size);
}

TEST_F(Recovering, ASuccessReportedAgainIsNotLost) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  RestartWithout(At(5s));
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_TRUE(a.IsTold<ddprun::Wait>(At(5s)));
  b.Ends(Outcome::kSucceeded, {}, At(6s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(6s))).exit_code, 0);
}

TEST_F(Recovering, AllSucceededEndsTheRun) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  b.report.hosting = Hosting::kNothing;
  b.report.outcome = Outcome::kSucceeded;
  b.report.floor = {1};
  RestartWithout(At(5s));
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kSucceeded);
}

// The old server may have known a loss that this one cannot: the budget is spared.
TEST_F(Recovering, AFailureFoundIsNotCharged) {
  story.state.restarts_used = 1;
  a.report.restarts_used = 1;
  RestartWithout(At(5s));
  a.report.hosting = Hosting::kNothing;
  a.report.outcome = Outcome::kFailed;
  a.report.failures = {Failure(Exited{3})};
  a.report.floor = {1};
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(std::get<Stop>(b.Told(At(5s))).cause, StopCause::kFailure);
  b.Ends(Outcome::kStopped, {}, At(6s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(story.state.restarts_used, 1u);
  EXPECT_GT(story.state.world->generation, Generation{1});
}

TEST_F(Recovering, AWorkersLastWordCountsStill) {
  RestartWithout(At(5s));
  a.report.hosting = Hosting::kNothing;
  a.report.outcome = Outcome::kFailed;
  a.report.failures = {Failure(Exited{76})};
  a.report.failures.front().said_hello = true;
  a.report.floor = {1};
  a.Says(At(5s));
  b.Says(At(5s)).Ends(Outcome::kStopped, {}, At(6s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(6s))).exit_code, 76);
}

TEST_F(Recovering, AfterALeaseTheMissingAreLost) {
  Form(kElastic);
  RestartWithout(At(5s));
  b.Says(At(5s));
  b.Hears(At(7s)).Says(At(7s));
  story.Pass(At(7'999ms));
  EXPECT_EQ(story.state.phase, Phase::kRecovering);
  EXPECT_EQ(*b.Waits(At(7'999ms)).remaining, 1ms);
  story.Pass(At(8s));
  EXPECT_EQ(std::get<Stop>(b.Told(At(8s))).cause, StopCause::kNodeLost);
  b.Ends(Outcome::kStopped, {}, At(9s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(story.state.restarts_used, 0u);
  EXPECT_EQ(story.state.world->members.size(), 1u);
  // The missing one comes back with workers of the old world.
  EXPECT_TRUE(a.Says(At(10s)).IsTold<Stop>(At(10s)));
}

TEST_F(Recovering, ANewcomerTakesAMissingOnesPlace) {
  RestartWithout(At(5s));
  b.Says(At(5s));
  b.Hears(At(7s)).Says(At(7s));
  story.Pass(At(8s));
  b.Ends(Outcome::kStopped, {}, At(9s));
  Node c(story, "n9", kTwo, 7);
  c.Says(At(9s));
  ASSERT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(std::get<ddprun::Run>(c.Told(At(9s))).placement.group_rank, 0u);
  EXPECT_EQ(std::get<ddprun::Run>(b.Told(At(9s))).placement.group_rank, 1u);
}

TEST_F(Recovering, NobodyWithWorkersMeansGatheringAfterALease) {
  Story fresh;
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

// It will exit whatever a new server says, so no world may be formed with it.
TEST_F(Recovering, WhoKnowsAnEndTakesNoPart) {
  Story fresh;
  fresh.config.term = {2};
  Node c(fresh, "n0", kElastic);
  c.report.term = {1};
  c.report.echo = Finish{Ending::kSucceeded, 0, "all workers finished", {}};
  c.Says(At(5s));
  fresh.Pass(At(20s));
  EXPECT_EQ(fresh.state.worlds_formed, 0u);
}

TEST_F(Recovering, FreshNodesAloneNeedNoRecovery) {
  Story fresh;
  Node c(fresh, "n0", kTwo);
  c.Says(At(0s));
  EXPECT_EQ(fresh.state.phase, Phase::kGathering);
}

// A node that was cut off reports an older world first; the newer one is what everybody runs.
TEST_F(Recovering, ANewerWorldTakesItBack) {
  Form(kElastic);
  RestartWithout(At(5s));
  Node old(story, "n9", kElastic, 9);
  old.report = a.report;
  old.report.node = "n9";
  old.report.placement->generation = {1};
  old.report.placement->group_size = 1;
  old.report.placement->group_rank = 0;
  old.report.placement->world_size = 1;
  old.report.placement->world_id = {77};
  old.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  a.report.placement->generation = b.report.placement->generation = {2};
  a.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kRecovering);
  b.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(story.state.world->generation, Generation{2});
  EXPECT_EQ(std::get<Stop>(old.Told(At(5s))).cause, StopCause::kSuperseded);
}

// A planned stop that the old server began keeps its time to save.
TEST_F(Recovering, TheCauseThatNodesWereToldStays) {
  a.report.hosting = b.report.hosting = Hosting::kStopping;
  a.report.echo = b.report.echo = Stop{{1}, story.state.world->id, StopCause::kScaleUp};
  RestartWithout(At(5s));
  a.Says(At(5s));
  b.Says(At(5s));
  EXPECT_EQ(std::get<Stop>(a.Told(At(5s))).cause, StopCause::kScaleUp);
}

// It knows how the run ended, by the old server's word: its success counts although it is gone.
TEST_F(Recovering, ANodeThatKnewTheEndAndLeftStillCounts) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  RestartWithout(At(5s));
  a.report.echo = Finish{Ending::kSucceeded, 0, "all workers finished", {}};
  a.Says(At(5s));
  b.report.hosting = Hosting::kNothing;
  b.report.placement.reset();
  b.report.floor = {};
  b.Says(At(6s));
  story.Pass(At(8s));  // Its lease is over at the moment at which the others are given up.
  EXPECT_EQ(story.state.phase, Phase::kGathering);
  EXPECT_EQ(story.state.world->generation, Generation{1});
}

TEST_F(Recovering, ALostNodeLeavesItsPlace) {
  Form(kElastic);
  RestartWithout(At(5s));
  a.Says(At(5s));
  a.Closes(At(5'100ms));
  story.Pass(At(5'300ms));
  EXPECT_TRUE(story.state.recovery.places.empty());
  b.Says(At(6s));
  EXPECT_EQ(story.state.phase, Phase::kRecovering);
}

// ---- With a journal ----
TEST_F(Recovering, AJournalStartsThereAndNamesTheMissing) {
  RestartWith(At(5s));
  EXPECT_NE(Describe(story.state, story.config, At(5s)).front().find("2 nodes of generation 1"),
            std::string::npos);
  b.Says(At(5s));
  EXPECT_EQ(b.Waits(At(5s)).missing, std::vector<std::string>{"n0"});
  a.Says(At(5s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
}

// A server that recovered without a node recorded no more of it than its group rank. (Seed
// 149894654668: the next server then waited for a node of that name, and ended.)
TEST_F(Recovering, AJournalThatDoesNotKnowANodeIsCompletedByItsReport) {
  Form(kElastic);
  story.config.term = {2};
  story.state = {};
  story.state.run_id = "run";
  b.Says(At(5s));
  b.Hears(At(7s)).Says(At(7s));
  story.Pass(At(8s));
  ASSERT_EQ(story.state.phase, Phase::kDraining);
  journal = story.persist->record;
  story.config.term = {3};
  story.state = Restore(*journal, At(9s));
  a.Says(At(9s));
  b.Hears(At(9s)).Says(At(9s));
  EXPECT_EQ(story.state.world->members[0].key.node, "n0");
  a.Hears(At(11s)).Says(At(11s));
  b.Hears(At(11s)).Says(At(11s));
  story.Pass(At(13s));
  a.Ends(Outcome::kStopped, {}, At(13s));
  b.Ends(Outcome::kStopped, {}, At(13s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(story.state.world->members.size(), 2u);
}

// The old server died between forming the world and telling it: nobody needs to start over.
TEST_F(Recovering, AJournalsNodeThatHasNotStartedIsTold) {
  RestartWith(At(5s));
  a.report.hosting = Hosting::kNothing;
  a.report.placement.reset();
  a.Says(At(5s));
  b.Says(At(5s));
  ASSERT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(std::get<ddprun::Run>(a.Told(At(5s))).placement.group_rank, 0u);
}

// What it said belongs to an older world; what it runs by now is not known.
TEST_F(Recovering, AJournalsNodeThatSpeaksOnlyOfAnOlderWorldIsLost) {
  Form(kElastic);
  RestartWith(At(5s));
  a.report.placement->world_id = {77};
  a.report.placement->generation = {0};
  a.report.hosting = Hosting::kStopping;
  a.Says(At(5s));
  b.Says(At(5s));
  b.Hears(At(7s)).Says(At(7s));
  a.Hears(At(7s)).Says(At(7s));
  story.Pass(At(8s));
  EXPECT_EQ(std::get<Stop>(a.Told(At(8s))).cause, StopCause::kDeclaredLost);
  EXPECT_EQ(std::get<Stop>(b.Told(At(8s))).cause, StopCause::kNodeLost);
}

// It was told that it may leave: it will never start, so its peers must not wait for it.
TEST_F(Recovering, AJournalsNodeThatLeavesIsNotWaitedFor) {
  Form(kElastic);
  RestartWith(At(5s));
  a.report.hosting = Hosting::kNothing;
  a.report.placement.reset();
  a.report.leaving = Leaving::kLeave;
  a.report.echo = Finish{Ending::kLeft, 143, "left", {}};
  a.Says(At(5s));
  b.Says(At(6s));
  EXPECT_TRUE(b.IsTold<Stop>(At(6s)));
  b.Ends(Outcome::kStopped, {}, At(7s));
  b.Hears(At(8s)).Says(At(8s));
  story.Pass(At(9s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
  EXPECT_EQ(story.state.world->members.size(), 1u);
}

TEST_F(Recovering, GenerationsStayAboveTheReservedBlock) {
  RestartWith(At(5s));
  a.report.hosting = Hosting::kNothing;
  a.report.outcome = Outcome::kStopped;
  a.report.floor = {1};
  a.Says(At(5s));
  b.Says(At(5s)).Ends(Outcome::kStopped, {}, At(6s));
  EXPECT_GT(story.state.world->generation, journal->reserved);
}

TEST_F(Recovering, AnOutcomeIsToldOnlyOnceItIsKept) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  b.Ends(Outcome::kSucceeded, {}, At(4s));
  ASSERT_TRUE(story.persist);
  EXPECT_TRUE(story.persist->record.outcome);
  EXPECT_EQ(a.Waits(At(4s)).what, WaitFor::kJournal);
  const auto edition = story.state.edition;
  story.Feed(Persisted{story.persist->number}, At(4s));
  EXPECT_GT(story.state.edition, edition);
  EXPECT_TRUE(a.IsTold<Finish>(At(4s)));
}

TEST_F(Recovering, AnOutcomeInTheJournalIsToldAlike) {
  a.Ends(Outcome::kSucceeded, {}, At(4s));
  b.Ends(Outcome::kSucceeded, {}, At(4s));
  journal = story.persist->record;
  RestartWith(At(5s));
  EXPECT_EQ(std::get<Finish>(b.Says(At(5s)).Told(At(5s))).ending, Ending::kSucceeded);
  // Who never heard of this run must not believe that its own work has succeeded.
  Node late(story, "n7", kTwo);
  EXPECT_EQ(std::get<Finish>(late.Says(At(5s)).Told(At(5s))).ending, Ending::kEnded);
}

TEST_F(Recovering, NothingIsRecordedWithoutNeed) {
  a.Hears(At(1s)).Says(At(1s));
  EXPECT_FALSE(story.persist);
  story.config.journal = false;
  a.Ends(Outcome::kFailed, {Failure(Exited{3})}, At(2s));
  b.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_FALSE(story.persist);
}

TEST_F(Recovering, APausedServerGivesTheLeaseAgain) {
  RestartWith(At(5s));
  a.Says(At(5s));
  story.Tick(At(60s));  // Asked to be woken at 8 s.
  EXPECT_EQ(story.state.phase, Phase::kRecovering);
  b.Says(At(60s));
  EXPECT_EQ(story.state.phase, Phase::kRunning);
}

// What waited in the socket is fed one by one; the pause was one.
TEST_F(Recovering, APauseIsForgivenOnce) {
  story.state.last_call = At(3s);  // Something that only a tick settles stays due meanwhile.
  story.state.phase = Phase::kGathering;
  story.Tick(At(1s));
  const Time before = story.state.nodes.at({"n0", {1}}).expires;
  for (int i = 0; i < 5; ++i) {
    a.Closes(At(20s), false);
    story.state.last_call = At(3s);
  }
  EXPECT_LE(story.state.nodes.at({"n0", {1}}).expires, before + 18s);
  story.state.last_call.reset();
}

TEST(Term, OfAServerWhoseClockWentBackIsRaised) {
  EXPECT_EQ(ReignAfter({100}, {90}), Term{100});
  EXPECT_EQ(ReignAfter({100}, {100}), Term{100});
  EXPECT_EQ(ReignAfter({100}, {200}), Term{208});
  EXPECT_EQ(ReignAfter({100}, {~std::uint64_t{0}}), Term{100});
}

}  // namespace
}  // namespace ddprun
