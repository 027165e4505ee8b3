// Recovering, where a journal tells what the dead server knew.
#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/recovery_fixture.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

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

}  // namespace
}  // namespace ddprun
