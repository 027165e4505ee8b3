// How an agent ends: signals, leaving and outages; and what its reports contain.
#include "agent/core/transitions.h"

#include <gtest/gtest.h>

#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

// There is no worker yet to which the signal could be passed on.
TEST_F(RunningAgent, ASignalDuringAStartThatLastsIsSaidSo) {
  EXPECT_FALSE(ReportOf(state, config).starting);
  Feed(StartLasts{{1}}, 2s);
  EXPECT_TRUE(Find<SendReport>()->report.starting);
  Feed(StartLasts{{1}, false}, 3s);
  EXPECT_FALSE(Find<SendReport>()->report.starting);
  Feed(StartLasts{{1}}, 4s);
  Feed(SignalArrived{kTerm}, 5s);
  EXPECT_EQ(Find<Say>()->text,
            "got SIGTERM: the workers are not started yet; cancelling their start");
  EXPECT_FALSE(ReportOf(state, config).starting);
}

TEST_F(RunningAgent, TermLeavesAndASecondOneKills) {
  Feed(SignalArrived{kTerm}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  EXPECT_EQ(Find<SendReport>()->report.leaving, Leaving::kLeave);
  EXPECT_EQ(*NextWake(state, config), At(32s));
  Feed(SignalArrived{kTerm}, 3s);
  EXPECT_TRUE(Did<KillWorkers>());
  Gone(4s);
  Told(Finish{Ending::kLeft, 143, "left", {}}, 4s);
  Feed(AgentTick{}, 4'200ms);
  EXPECT_EQ(Find<Exit>()->code, 143);
}

TEST_F(RunningAgent, WorkersThatIgnoreAnInterruptGetTermBeforeTheyAreKilled) {
  Feed(SignalArrived{kInt}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kInt);
  EXPECT_EQ(*NextWake(state, config), At(27s));
  Ends(0, Killed{kInt}, 3s);
  Feed(AgentTick{}, 27s);
  ASSERT_TRUE(Did<SignalWorkers>());
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  EXPECT_FALSE(Find<SignalWorkers>()->end_at_once);
  EXPECT_EQ(Find<Say>()->text, "SIGINT has not ended 1 worker: sending SIGTERM");
  EXPECT_EQ(*NextWake(state, config), At(32s));
  Feed(AgentTick{}, 32s);
  EXPECT_TRUE(Did<KillWorkers>());
}

// Of another node, within a short grace.
TEST_F(RunningAgent, SoDoThoseThatAnotherNodesInterruptStops) {
  config.spec.shutdown_timeout = 4s;
  Told(Stop{{1}, {1}, StopCause::kOperator, /*interrupts=*/true}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kInt);
  EXPECT_EQ(*NextWake(state, config), At(4s));
  TellStop(1, StopCause::kNodeLost, 3s);  // They get it at once.
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  EXPECT_EQ(*NextWake(state, config), At(6s));
}

// Workers that can save must not get the same signal as workers whose peer is gone.
TEST_F(RunningAgent, OnlyAStopForLossTellsWorkersToEndAtOnce) {
  TellStop(1, StopCause::kScaleUp, 2s);
  EXPECT_FALSE(Find<SignalWorkers>()->end_at_once);
  TellStop(1, StopCause::kNodeLost, 3s);
  EXPECT_TRUE(Find<SignalWorkers>()->end_at_once);
}

TEST_F(RunningAgent, AWorkerThatIsActiveAfterAFailureHasTheShutdownTimeout) {
  Ends(0, Exited{1}, 2s);
  EXPECT_EQ(*NextWake(state, config), At(7s));
  EXPECT_FALSE(Find<SendReport>()->report.saving);
  Feed(StillActive{{1}}, 4s);  // As one that ends is.
  EXPECT_EQ(*NextWake(state, config), At(7s));
  EXPECT_TRUE(effects.empty());
  Feed(StillActive{{1}}, 6s);
  EXPECT_EQ(*NextWake(state, config), At(9s));
  EXPECT_EQ(Find<Say>()->text,
            "workers that were asked to end are still active: they have 30.0 s in all "
            "(--shutdown-timeout)");
  EXPECT_TRUE(Find<SendReport>()->report.saving);
  Feed(StillActive{{1}}, 7s);
  EXPECT_FALSE(Did<Say>());
  for (Duration t = 8s; t <= 31s; t += 1s) {
    Feed(StillActive{{1}}, t);
  }
  EXPECT_EQ(*NextWake(state, config), At(32s));
  Feed(AgentTick{}, 32s);
  EXPECT_TRUE(Did<KillWorkers>());
  EXPECT_TRUE(ReportOf(state, config).saving);  // Until they are gone.
  Gone(33s);
  EXPECT_FALSE(ReportOf(state, config).saving);
}

TEST_F(Agent, AShutdownTimeoutThatIsSetCountsForAStopByFailureToo) {
  config.spec.shutdown_timeout = config.stop_grace = 8s;
  TellRun(1, 1s);
  Ends(0, Exited{1}, 2s);
  EXPECT_EQ(*NextWake(state, config), At(10s));
  EXPECT_TRUE(Find<SendReport>()->report.saving);
  Feed(StillActive{{1}}, 9s);
  EXPECT_EQ(*NextWake(state, config), At(10s));
}

TEST_F(RunningAgent, ALossInAPlannedStopLeavesActiveWorkersWhatThatHadPromised) {
  TellStop(1, StopCause::kScaleUp, 2s);
  TellStop(1, StopCause::kNodeLost, 26s);
  EXPECT_EQ(*NextWake(state, config), At(31s));
  Feed(StillActive{{1}}, 30s);
  EXPECT_EQ(*NextWake(state, config), At(32s));
}

TEST_F(RunningAgent, WorkersThatAreKilledAlreadyGetNoMoreTime) {
  Ends(0, Exited{1}, 2s);
  Feed(AgentTick{}, 7s);
  EXPECT_TRUE(Did<KillWorkers>());
  Feed(StillActive{{1}}, 8s);
  EXPECT_TRUE(effects.empty());
}

// In a run of one node the TERM of a spare must not stop the one that works.
TEST_F(Agent, ASpareThatGetsTermOnlyLeaves) {
  config.spec.max_nodes = 1;
  Feed(SignalArrived{kTerm}, 1s);
  EXPECT_EQ(Find<SendReport>()->report.leaving, Leaving::kLeave);
}

TEST_F(Agent, ALeaverWithoutAServerDoesNotWait) {
  Feed(SignalArrived{kTerm}, 1s);
  Feed(AgentTick{}, 2s);
  EXPECT_EQ(Find<Exit>()->code, 143);
}

TEST_F(Agent, ALeaverRunsNothingMore) {
  Feed(SignalArrived{kTerm}, 1s);
  TellRun(1, 1s);
  EXPECT_FALSE(Did<Spawn>());
}

TEST_F(Agent, ASignalAfterTheEndDoesNotChangeTheOutcome) {
  Told(Finish{Ending::kFailed, 3, "failed", {}}, 1s);
  Feed(SignalArrived{kTerm}, 1'100ms);
  Feed(AgentTick{}, 1'200ms);
  EXPECT_EQ(Find<Exit>()->code, 3);
}

TEST_F(Agent, UserSignalsGoToTheWorkersAndChangeNothing) {
  Feed(SignalArrived{kUsr1}, 1s);
  EXPECT_TRUE(effects.empty());
  TellRun(1, 1s);
  Feed(SignalArrived{kUsr1}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kUsr1);
  EXPECT_EQ(state.phase, AgentPhase::kRunning);
  EXPECT_FALSE(Did<SendReport>());
}

// Workers that are not started yet cannot get them.
TEST_F(RunningAgent, UserSignalsWaitForWorkersThatAreBeingStarted) {
  Feed(SignalArrived{kUsr1, /*starting=*/true}, 2s);
  EXPECT_TRUE(effects.empty());
  Feed(WorkersStarted{{1}}, 3s);
  ASSERT_TRUE(Did<SignalWorkers>());
  EXPECT_EQ(Find<SignalWorkers>()->signal, kUsr1);
  Feed(WorkersStarted{{1}}, 4s);
  EXPECT_FALSE(Did<SignalWorkers>());
}

// Waiting does not correct a wrong token or protocol. Running workers are not affected.
TEST_F(Agent, APermanentRefusalEndsAnAgentThatWasNeverHeard) {
  Feed(Started{{1}, {}}, 0s);
  Feed(CallFailed{state.sequence, "the server wants a token", true}, 1s);
  ASSERT_NE(Find<Exit>(), nullptr);
  EXPECT_EQ(Find<Exit>()->code, 2);
  EXPECT_EQ(Find<Exit>()->text, "the server wants a token");
}

TEST_F(Agent, IdleItGivesUpAfterTheOutageLimit) {
  Told(Wait{}, 1s);
  Feed(CallFailed{state.sequence, "connection refused"}, 2s);
  EXPECT_EQ(*NextWake(state, config), At(2'020ms));
  Feed(AgentTick{}, 601s);
  ASSERT_TRUE(Did<Exit>());
  EXPECT_EQ(Find<Exit>()->code, 69);
  EXPECT_NE(Find<Exit>()->text.find("connection refused"), std::string::npos);
}

TEST_F(Agent, BeforeTheFirstContactTheJoinTimeoutIsTheLimit) {
  config.spec.join_timeout = 5s;
  EXPECT_EQ(*NextWake(state, config), At(5s));
  Feed(AgentTick{}, 5s);
  EXPECT_EQ(Find<Exit>()->code, 69);
}

TEST_F(RunningAgent, WorkersContinueWithoutAServer) {
  Feed(CallFailed{state.sequence, "gone"}, 5s);
  Feed(AgentTick{}, 10'000s);
  EXPECT_FALSE(Did<Exit>() || Did<SignalWorkers>() || Did<KillWorkers>());
  EXPECT_TRUE(Did<SendReport>());
}

// Four tries per poll period, so that a small run soon finds a server that is back. In a run of
// thousands, whose poll periods are long, at most one try a second.
TEST_F(Agent, RetriesBackOffToAQuarterOfThePollPeriod) {
  std::vector<Duration> waits;
  Duration now = 0s;
  for (int i = 0; i < 8; ++i) {
    Feed(CallFailed{state.sequence, "refused"}, now);
    const auto wait = *NextWake(state, config) - At(now);
    waits.push_back(std::chrono::duration_cast<Duration>(wait));
    now += waits.back();
    Feed(AgentTick{}, now);
  }
  EXPECT_EQ(waits.front(), 20ms);
  EXPECT_EQ(waits[1], 40ms);
  EXPECT_EQ(waits.back(), 250ms);
  Feed(Replied{state.sequence, {Wait{}, 5, 60s, 20s, {1}}, {99}}, now);
  for (int i = 0; i < 8; ++i) {
    Feed(CallFailed{state.sequence, "refused"}, now);
    now += std::chrono::duration_cast<Duration>(*NextWake(state, config) - At(now));
    Feed(AgentTick{}, now);
  }
  Feed(CallFailed{state.sequence, "refused"}, now);
  EXPECT_EQ(*NextWake(state, config), At(now + 1s));
}

// Repeated lines would bury the first error line, which the user needs.
TEST_F(Agent, AWaitIsReportedOncePerReason) {
  Told(Wait{{.what = WaitFor::kNodes, .have = 1, .need = 2, .remaining = 9s}}, 1s);
  EXPECT_TRUE(Did<Say>());
  Told(Wait{{.what = WaitFor::kNodes, .have = 1, .need = 2, .remaining = 8s}}, 2s);
  EXPECT_FALSE(Did<Say>());
}

TEST_F(RunningAgent, EventsOfEarlierGenerationsAreOldNews) {
  Gone(2s);
  TellRun(2, 3s);
  Feed(WorkerEnded{{1}, 0, 1, Exited{1}}, 4s);
  Feed(AllGone{{1}, {}}, 4s);
  EXPECT_EQ(state.phase, AgentPhase::kRunning);
  EXPECT_TRUE(state.failures.empty());
}

TEST_F(Agent, FailuresInAReportAreBounded) {
  config.workers = 20;
  TellRun(1, 1s);
  for (std::uint32_t i = 0; i < 19; ++i) {
    Feed(WorkerEnded{{1}, i, i, Exited{1}, false, std::string(100'000, 'x'), {}}, 5s);
  }
  EXPECT_EQ(state.failures.size(), kMaxFailures);
  EXPECT_EQ(state.failures[0].last_lines.size(), kMaxLastLines);
  // The worker that failed first may be the last to end.
  Feed(WorkerEnded{{1}, 19, 119, Killed{kTerm}, false, "", {}, At(2s)}, 6s);
  EXPECT_EQ(state.failures.size(), kMaxFailures);
  EXPECT_EQ(state.failures[0].local_rank, 19u);
}

// Otherwise the failure report on another node could only say that a worker failed.
TEST_F(RunningAgent, AReportCarriesWhatAFailedWorkerLeft) {
  const FailureDetails details{1'795'263'336'042, "/logs/0/error.json", "ValueError: boom", "at x"};
  Feed(WorkerEnded{{1}, 0, 1, Exited{1}, false, "", details}, 2s);
  const NodeReport report = ReportOf(state, config);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].details, details);
}

// An exception is recorded before its process is gone, and peers may die of it in between.
TEST_F(RunningAgent, FailuresAreInTheOrderOfTheirErrorFiles) {
  Ends(0, Exited{1}, 5s);
  Feed(WorkerEnded{{1}, 1, 101, Killed{kTerm}, false, "", {}, At(3s)}, 6s);
  const NodeReport report = ReportOf(state, config);
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_EQ(report.failures[0].local_rank, 1u);
  EXPECT_TRUE(report.failures[0].recorded && report.failures[0].stopped_by_us);
  EXPECT_EQ(report.failures[0].after, 0s);
  EXPECT_EQ(report.failures[1].after, 2s);
  EXPECT_FALSE(report.failures[1].recorded);
}

TEST_F(RunningAgent, AnErrorThatTheStopBroughtAboutIsNone) {
  Ends(0, Exited{3}, 5s);
  Feed(WorkerEnded{{1}, 1, 101, Exited{1}, false, "", {}, At(5s)}, 6s);
  const NodeReport report = ReportOf(state, config);
  EXPECT_EQ(report.failures[0].local_rank, 0u);
  EXPECT_TRUE(report.failures[1].stopped_by_us);
  EXPECT_FALSE(report.failures[1].recorded);
  EXPECT_EQ(report.failures[1].after, 1s);
}

TEST_F(RunningAgent, AWorkerFailedWhenItsEndWasNoticedNotWhenItsFilesWereRead) {
  Feed(WorkerEnded{{1}, 0, 100, Exited{3}, false, "", {}, {}, At(4'900ms)}, 5s);
  Feed(WorkerEnded{{1}, 1, 101, Exited{1}, false, "", {}, At(4'950ms)}, 6s);
  const NodeReport report = ReportOf(state, config);
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_EQ(report.failures[0].local_rank, 0u);
  EXPECT_EQ(report.failures[1].after, 50ms);
}

// The pause was for another server, the one that did not answer.
TEST_F(RunningAgent, AsksAnotherServerAtOnce) {
  Feed(CallFailed{state.sequence, "refused"}, 2s);
  Feed(ServerChanged{}, 2'001ms);
  EXPECT_TRUE(Did<SendReport>());
  Feed(ServerChanged{}, 2'002ms);  // The call is open: it was sent to that one.
  EXPECT_FALSE(Did<SendReport>());
}

TEST_F(Agent, OfALargeWorldAsksAnotherServerWhenItsPauseIsOver) {
  Feed(Replied{state.sequence, {RunOf(1), 5, 36s, 12s, {1}}, {99}}, 1s);
  Feed(AgentTick{}, 3s);
  Feed(CallFailed{state.sequence, "refused"}, 4s);
  Feed(ServerChanged{}, 4'001ms);
  EXPECT_FALSE(Did<SendReport>());
}

}  // namespace
}  // namespace ddprun
