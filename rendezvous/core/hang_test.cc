#include "rendezvous/core/hang.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/hangs.h"

namespace ddprun {
namespace {

TEST_F(Hangs, TheRankBehindItsPeersIsToBlame) {
  Stand({Late(0, 120, "", 2)}, {Late(3, 118, "forward"), Late(2, 120)});
  EXPECT_EQ(Why(),
            "rank 3 (local rank 1, host n1) hung: no step for 30.0 s (its peers are at step 120, "
            "it is at step 118 in phase 'forward')");
  EXPECT_EQ(std::get<Stop>(a.Told(At(31s))).cause, StopCause::kHang);
}

// Under Slurm an agent per task has one worker each: all of a machine's have its host's name.
TEST_F(Hangs, TheLocalRankIsTheMachinesNotTheAgents) {
  b.report.first_local_rank = 4;
  Stand({Late(0, 120, "", 2)}, {Late(3, 118), Late(2, 120)});
  EXPECT_EQ(Why().substr(0, 38), "rank 3 (local rank 5, host n1) hung: n");
}

// Rank 0 writes a checkpoint for as long as it may; the others wait for it and are late.
TEST_F(Hangs, NoRankIsToBlameWhileTheOneBehindMayStillWork) {
  Stand({InTime(0, 118, "checkpoint"), Late(1, 119)}, {Late(2, 119, "", 2)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Stand({Late(0, 118, "checkpoint"), Late(1, 119)}, {Late(2, 119, "", 2)}, At(32s));
  EXPECT_EQ(Why().substr(0, 40), "rank 0 (local rank 0, host n0) hung: no ");
}

TEST_F(Hangs, AtOneStepTheOddPhaseIsToBlame) {
  Stand({Late(0, 7, "reduce", 2)}, {Late(2, 7, "data"), Late(3, 7, "reduce")});
  EXPECT_EQ(scenario.state.drain->hang->rank, 2u);
  EXPECT_FALSE(scenario.state.drain->hang->nobody_lags);
  EXPECT_NE(Why().find("its peers are in phase 'reduce', it is in phase 'data', all at step 7"),
            std::string::npos)
      << Why();
}

TEST_F(Hangs, UnknownWhenAllAreEqual) {
  Stand({Late(0, 7, "x", 2)}, {Late(2, 7, "x", 2)});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
  EXPECT_EQ(Why(),
            "the workers hang: no step for 30.0 s (all 4 ranks are at step 7 in phase 'x'; which "
            "of them is to blame is unknown)");
}

TEST_F(Hangs, UnknownWhenTwoPhasesAreEquallyCommon) {
  Stand({Late(0, 7, "a", 2)}, {Late(2, 7, "b", 2)});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
}

TEST_F(Hangs, UnknownWhenMostAreBehindOneThatFinishedItsStepFirst) {
  Stand({Late(0, 7), Late(1, 8)}, {Late(2, 7, "", 2)});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
  EXPECT_NE(Why().find("3 of 4 ranks are at step 7"), std::string::npos) << Why();
}

TEST_F(Hangs, HalfOfAllBehindTogetherAreReported) {
  Stand({Late(0, 9, "", 2)}, {Late(2, 7, "", 2)});
  EXPECT_NE(Why().find("it and 1 rank more are at step 7, the others at step 9"), std::string::npos)
      << Why();
}

// The progress of the other node is from before: it may have moved on since.
TEST_F(Hangs, OldProgressGroupsAreNotJudged) {
  Stand(b, {InTime(2, 100), InTime(3, 100)}, At(10s));
  Stand(a, {Late(0, 120, "", 2)}, At(31s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Stand(b, {InTime(2, 121), InTime(3, 121)}, At(32s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);  // Rank 0 may have moved on too.
  Stand(a, {Late(0, 120, "", 2)}, At(33s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Stand({Late(0, 120, "", 2)}, {InTime(2, 121), InTime(3, 121)}, At(63s));
  EXPECT_EQ(Why().substr(0, 6), "rank 0");
}

// All waited for one that had asked for more time, and are late through it. It has gone on, and so
// do they: some tell their next step a moment later than others.
TEST_F(Hangs, ARankThatWaitedForLongMayReportItsStepLaterThanItsPeers) {
  Stand(b, {Late(2, 15, "", 2)}, At(31s));
  Stand(a, {InTime(0, 15), Late(1, 15)}, At(31s));
  Stand(a, {InTime(0, 16), InTime(1, 16)}, At(40s));
  Stand(b, {InTime(2, 16), Late(3, 15)}, At(40s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning) << Why();
  Stand(a, {Late(0, 16, "", 2)}, At(70s));
  Stand(b, {Late(2, 16), Late(3, 15)}, At(70s));
  EXPECT_EQ(Why().substr(0, 6), "rank 3") << Why();
}

TEST_F(Hangs, ARankThatSaysNothingOnTheSocketCountsNowhere) {
  Stand({Late(1, 5)}, {});
  EXPECT_EQ(Why(), "rank 1 (local rank 1, host n0) hung: no step for 30.0 s (it is at step 5)");
}

// Rank 3 still imports its libraries; its peers have said hello and wait for it to join.
TEST_F(Hangs, ASlowStartOfOneWorkerIsNoHang) {
  Stand({Late(0, 0, "join", 2)}, {Late(2, 0, "join")});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Stand({Late(0, 0, "join", 2)}, {Late(2, 0, "join"), Late(3, 0, "join")}, At(60s));
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
}

// It ended well without a word, or after its hello: no rank waits for its start.
TEST_F(Hangs, ARankThatHasEndedIsNotWaitedForAtTheStart) {
  b.report.ended_well = 1;
  Stand({Late(0, 0, "join", 2)}, {Late(3, 0, "join")});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
}

TEST(HangsAtTheStart, ANodeThatHasNotStartedIsWaitedFor) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 2, .max_nodes = 2};
  Node a(scenario, "n0", spec);
  Node b(scenario, "n1", spec);
  a.Says(At(0s));
  b.Says(At(0s));
  a.Hosts(At(0s));
  Hangs::Stand(a, {Late(0, 0)}, At(10s));
  b.Hears(At(10s)).Says(At(10s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST_F(Hangs, AFinishedNodeIsNotWaitedFor) {
  Stand(a, {InTime(0, 5, "evaluate"), InTime(1, 6)}, At(1s));
  b.Ends(Outcome::kSucceeded, {}, At(20s));
  Stand(a, {Late(0, 5, "evaluate"), InTime(1, 6)}, At(31s));
  ASSERT_TRUE(scenario.state.drain && scenario.state.drain->hang);
  EXPECT_EQ(scenario.state.drain->hang->rank, 0u);
}

// The killed worker's own end completes the report; it uses the last restart.
TEST_F(Hangs, UsesARestartAndEndsTheRunWith124WhenTheBudgetIsSpent) {
  for (const std::uint64_t generation : {1u, 2u}) {
    ASSERT_EQ(scenario.state.world->generation, Generation{generation});
    const Time now = At(generation * 40s);
    Stand({Late(0, 120, "", 2)}, {Late(2, 118), Late(3, 120)}, now);
    ASSERT_EQ(scenario.state.phase, Phase::kDraining);
    WorkerFailure killed = Failure(Killed{9});
    killed.rank = 2;
    killed.pid = 4711;
    killed.stopped_by_us = true;
    a.report.progress_groups.clear();
    b.report.progress_groups.clear();
    a.report.hung_rank.reset();
    b.report.hung_rank.reset();
    a.Ends(Outcome::kStopped, {}, now + 1s);
    b.Ends(Outcome::kStopped, {killed}, now + 1s);
    if (generation == 1) {
      EXPECT_EQ(scenario.state.budget.used, 1u);
      a.Hosts(now + 2s);
      b.Hosts(now + 2s);
    }
  }
  ASSERT_EQ(scenario.state.phase, Phase::kFailed);
  EXPECT_EQ(scenario.state.outcome->exit_code, 124);
  EXPECT_EQ(scenario.state.outcome->root->pid, 4711);
  EXPECT_EQ(scenario.state.outcome->text,
            "rank 2 (local rank 0, pid 4711, host host) hung: no step for 30.0 s (its peers are "
            "at step 120, it is at step 118); 1 of 1 restarts are used [no-restarts-left]");
}

// It may have hung because of the lost node.
TEST_F(Hangs, UsesNoRestartWhenANodeIsLostMeanwhile) {
  Stand({Late(0, 118), Late(1, 120)}, {Late(2, 120, "", 2)});
  a.Ends(Outcome::kStopped, {}, At(32s));
  b.Closes(At(32s));
  scenario.Pass(At(33s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  EXPECT_EQ(scenario.state.budget.used, 0u);
}

// All wait in the first collective for who starts last; its step is heard of a moment earlier.
TEST_F(Hangs, ARankThatHasMadeNoStepYetHasItsTimeSinceTheFirstOne) {
  const auto stand = [this](std::uint64_t steps, Time now) {
    Stand(a, {Late(0, 0), Late(1, 0)}, now);
    Stand(b, {InTime(2, steps), InTime(3, steps)}, now);
    Stand(a, {Late(0, 0), Late(1, 0)}, now);
  };
  stand(1, At(100s));
  EXPECT_EQ(Why(), "");
  stand(2, At(129s));
  EXPECT_EQ(Why(), "");
  stand(3, At(130s));
  EXPECT_NE(Why(), "");
}

// ---- What follows ----
TEST_F(Hangs, AnEventTellsOfItBeforeAnythingIsStopped) {
  Stand({Late(0, 8, "", 2)}, {Late(2, 5), Late(3, 8)});
  const auto hung = scenario.Events(kEventHung);
  ASSERT_EQ(hung.size(), 1u);
  EXPECT_EQ(hung[0].cause, "hang");
  EXPECT_EQ(hung[0].generation, scenario.state.world->generation);
  EXPECT_EQ(hung[0].text, Why() + " [workers-hang]");
}

struct HangsFail : Hangs {
  HangsFail() { a.report.spec.on_hang = b.report.spec.on_hang = kHangFails; }
};

TEST_F(HangsFail, TheRunIsOverWhateverTheBudget) {
  Stand({Late(0, 8, "", 2)}, {Late(2, 5), Late(3, 8)});
  for (Node* const node : {&a, &b}) {
    node->report.progress_groups.clear();
    node->report.hung_rank.reset();
    node->Ends(Outcome::kStopped, {}, At(32s));
  }
  ASSERT_EQ(scenario.state.phase, Phase::kFailed);
  EXPECT_EQ(scenario.state.outcome->exit_code, 124);
  EXPECT_NE(scenario.state.outcome->text.find("a hang ends this run (--on-hang=fail)"),
            std::string::npos)
      << scenario.state.outcome->text;
}

struct HangsAreReported : Hangs {
  HangsAreReported() { a.report.spec.on_hang = b.report.spec.on_hang = kHangIsReported; }
};

TEST_F(HangsAreReported, OnceForEachVerdictAndTheRunContinues) {
  Stand({Late(0, 8, "", 2)}, {Late(2, 5), Late(3, 8)});
  Stand({Late(0, 8, "", 2)}, {Late(2, 5), Late(3, 8)}, At(40s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  const auto hung = scenario.Events(kEventHung);
  ASSERT_EQ(hung.size(), 1u);
  EXPECT_EQ(hung[0].level, NoticeLevel::kWarning);
  EXPECT_NE(hung[0].text.find("the run continues (--on-hang=observe"), std::string::npos);
  Stand({Late(0, 9, "", 2)}, {Late(2, 5), Late(3, 9)}, At(50s));  // Its peers take steps.
  EXPECT_EQ(scenario.Events(kEventHung).size(), 1u);
  Stand({Late(0, 9, "", 2)}, {Late(2, 6), Late(3, 9)}, At(90s));
  EXPECT_EQ(scenario.Events(kEventHung).size(), 2u);
}

TEST_F(HangsAreReported, EvidenceIsSentForOnceAMinute) {
  Stand({Late(0, 8, "", 2)}, {Late(2, 5), Late(3, 8)});
  EXPECT_EQ(scenario.evidence.size(), 2u);  // Both nodes.
  Stand({Late(0, 9, "", 2)}, {Late(2, 6), Late(3, 9)}, At(60s));
  ASSERT_EQ(scenario.Events(kEventHung).size(), 2u);
  EXPECT_EQ(scenario.evidence.size(), 2u);
  Stand({Late(0, 10, "", 2)}, {Late(2, 7), Late(3, 10)}, At(120s));
  ASSERT_EQ(scenario.Events(kEventHung).size(), 3u);
  EXPECT_EQ(scenario.evidence.size(), 4u);
}

}  // namespace
}  // namespace ddprun
