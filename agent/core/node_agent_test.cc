#include "agent/core/node_agent.h"

#include <gtest/gtest.h>

#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

TEST_F(RunningAgent, RunsWhatItHasNotPromisedAway) {
  EXPECT_TRUE(Did<Spawn>());
  EXPECT_EQ(Find<SendReport>()->report.hosting, Hosting::kWorkers);
  EXPECT_EQ(Find<SendReport>()->deadline, 1'300ms);
  EXPECT_TRUE(NeedsStore(state));
}

// Ten thousand nodes that get a directive to run do not all answer at once; news is reported at
// once.
TEST_F(Agent, InALargeWorldTheStartIsReportedInAMomentOfItsOwn) {
  state.incarnation = {500};
  Told(Wait{}, 1s);
  Feed(Replied{state.sequence, {RunOf(1), 5, 36s, 12s, {1}}, {99}}, 2s);
  EXPECT_TRUE(Did<Spawn>());
  EXPECT_FALSE(Did<SendReport>());
  EXPECT_EQ(*NextWake(state, config), At(2'500ms));
  const AgentState held = state;
  Feed(AgentTick{}, 2'500ms);
  EXPECT_EQ(Find<SendReport>()->report.hosting, Hosting::kWorkers);
  state = held;
  Ends(0, Exited{1}, 2'100ms);
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_EQ(Find<SendReport>()->report.failures.size(), 1u);
}

// The answer was under way while the coordinator got "I host nothing, floor 2".
TEST_F(Agent, NeverRunsAtOrBelowItsFloor) {
  TellStop(2, StopCause::kFailure, 1s);
  EXPECT_EQ(Find<SendReport>()->report.floor, Generation{2});
  TellStop(1, StopCause::kFailure, 1s);  // A promise is never taken back.
  TellRun(2, 2s);
  EXPECT_FALSE(Did<Spawn>());
  TellRun(3, 3s);
  EXPECT_TRUE(Did<Spawn>());
}

// A worker with much memory ends long after its peers could have been stopped.
TEST_F(RunningAgent, ADyingWorkersPeersAreStoppedBeforeItsEnd) {
  Feed(WorkerDying{{1}, 1}, 2s);
  ASSERT_TRUE(Did<SignalWorkers>());
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  EXPECT_TRUE(Find<SignalWorkers>()->end_at_once);
  EXPECT_EQ(Find<SendReport>()->report.hosting, Hosting::kStopping);
  EXPECT_EQ(Find<SendReport>()->report.start_timings.detect, 0ms);
  Ends(0, Killed{kTerm}, 2'100ms);
  Ends(1, Killed{9}, 2'400ms);
  EXPECT_FALSE(Did<SignalWorkers>());
  const std::vector<WorkerFailure>& failures = Find<SendReport>()->report.failures;
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].local_rank, 1u) << "the first one, though it ended last";
  EXPECT_FALSE(failures[0].stopped_by_us);
  EXPECT_TRUE(failures[1].stopped_by_us);
  EXPECT_EQ(failures[1].after, 100ms);
  Gone(2'500ms);
  EXPECT_EQ(Find<SendReport>()->report.outcome, Outcome::kFailed);
}

TEST_F(RunningAgent, AWorkerThatDiesInAStopIsStopped) {
  TellStop(1, StopCause::kFailure, 2s);
  Feed(WorkerDying{{1}, 1}, 3s);
  EXPECT_TRUE(effects.empty());
  Ends(1, Killed{kTerm}, 4s);
  EXPECT_TRUE(Find<SendReport>()->report.failures.at(0).stopped_by_us);
}

TEST_F(Agent, ADeathOfAnotherGenerationOrOfOneThatHasEndedStopsNoWorker) {
  TellRun(2, 1s);
  Feed(WorkerDying{{1}, 1}, 2s);
  EXPECT_TRUE(effects.empty());
  Ends(1, Exited{0}, 3s);
  Feed(WorkerDying{{2}, 1}, 4s);
  EXPECT_TRUE(effects.empty());
  Ends(0, Exited{0}, 5s);
  Gone(6s);
  EXPECT_EQ(Find<SendReport>()->report.outcome, Outcome::kSucceeded);
  Feed(WorkerDying{{2}, 0}, 7s);
  EXPECT_TRUE(effects.empty());
}

// Of one generation's dying ranks the next one knows nothing.
TEST_F(RunningAgent, ADeathIsForgottenWithItsGeneration) {
  Feed(WorkerDying{{1}, 1}, 2s);
  BothEnd(Killed{kTerm}, Killed{9}, 3s);
  TellRun(2, 4s);
  TellStop(2, StopCause::kFailure, 5s);
  Ends(1, Killed{kTerm}, 6s);
  EXPECT_TRUE(Find<SendReport>()->report.failures.at(0).stopped_by_us);
}

TEST_F(Agent, RunningIgnoresTheSameAndOlderRunsAndDrainsForNewer) {
  TellRun(2, 1s);
  TellRun(2, 2s);
  EXPECT_FALSE(Did<Spawn>() || Did<SignalWorkers>());
  TellRun(1, 2s);
  EXPECT_FALSE(Did<Spawn>() || Did<SignalWorkers>());
  TellRun(3, 3s);
  EXPECT_FALSE(Did<Spawn>());
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  TellRun(4, 3s);  // While stopping: not yet.
  EXPECT_FALSE(Did<Spawn>());
  Gone(4s);
  EXPECT_EQ(state.phase, AgentPhase::kIdle);
  EXPECT_EQ(state.floor, Generation{2});
}

// The next spawn waits until every process of the last one is gone, not just its workers.
TEST_F(RunningAgent, ALastExitIsNotYetTheEnd) {
  Ends(0, Exited{0}, 2s);
  Ends(1, Exited{0}, 2s);
  EXPECT_EQ(state.phase, AgentPhase::kRunning);
  Gone(3s);
  EXPECT_EQ(state.phase, AgentPhase::kIdle);
  const NodeReport report = Find<SendReport>()->report;
  EXPECT_EQ(report.outcome, Outcome::kSucceeded);
  EXPECT_EQ(report.floor, Generation{1});
  EXPECT_EQ(report.placement->generation, Generation{1});
  EXPECT_EQ(report.store, (Endpoint{"n0", 2}));
}

TEST_F(RunningAgent, TheFirstFailureStopsTheRestAndStaysFirst) {
  Ends(1, Exited{3}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  EXPECT_EQ(state.phase, AgentPhase::kStopping);
  Ends(0, Killed{15}, 2'500ms);
  Gone(3s);
  const NodeReport report = Find<SendReport>()->report;
  EXPECT_EQ(report.outcome, Outcome::kFailed);
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_EQ(report.failures[0].rank, 5u);
  EXPECT_FALSE(report.failures[0].stopped_by_us);
  EXPECT_TRUE(report.failures[1].stopped_by_us);
  EXPECT_EQ(report.failures[1].after, 500ms);
}

TEST_F(Agent, StopOfAnOlderGenerationLeavesWorkersAlone) {
  TellRun(5, 1s);
  TellStop(4, StopCause::kFailure, 2s);
  EXPECT_EQ(state.phase, AgentPhase::kRunning);
  TellStop(5, StopCause::kFailure, 2s);
  EXPECT_EQ(state.phase, AgentPhase::kStopping);
  EXPECT_EQ(*NextWake(state, config), At(7s));  // The grace of a failure.
  TellStop(6, StopCause::kFailure, 3s);         // While stopping: raises the floor.
  EXPECT_EQ(state.floor, Generation{6});
}

TEST_F(RunningAgent, APlannedStopGivesTimeToSave) {
  TellStop(1, StopCause::kScaleUp, 2s);
  EXPECT_EQ(*NextWake(state, config), At(32s));
  // A peer is lost meanwhile: a rank that is blocked with it never sees TERM.
  TellStop(1, StopCause::kNodeLost, 3s);
  EXPECT_EQ(*NextWake(state, config), At(8s));
  TellStop(1, StopCause::kFailure, 6s);  // The grace does not start again.
  EXPECT_EQ(*NextWake(state, config), At(8s));
}

TEST_F(RunningAgent, AWorkerThatOutlivesTheGraceIsKilledAndThenReported) {
  TellStop(1, StopCause::kFailure, 2s);
  Feed(AgentTick{}, 6'999ms);
  EXPECT_FALSE(Did<KillWorkers>());
  Feed(AgentTick{}, 7s);
  EXPECT_TRUE(Did<KillWorkers>());
  Feed(AgentTick{}, 12s);
  EXPECT_EQ(Find<SendReport>()->report.unkillable, 2u);
  Ends(0, Killed{9}, 13s);
  EXPECT_EQ(Find<SendReport>()->report.unkillable, 1u);
  Gone(14s);
  EXPECT_EQ(Find<SendReport>()->report.unkillable, 0u);
}

TEST_F(RunningAgent, WorkersThatCannotStartAreReported) {
  Feed(SpawnFailed{{1}, "cannot execute 'x'", {"n0", 3}}, 1s);
  const NodeReport report = Find<SendReport>()->report;
  EXPECT_EQ(report.outcome, Outcome::kSpawnFailed);
  EXPECT_EQ(report.spawn_failure, "cannot execute 'x'");
  EXPECT_EQ(report.floor, Generation{1});
  TellRun(2, 2s);
  EXPECT_EQ(Find<SendReport>()->report.spawn_failure, "");
}

TEST_F(Agent, FinishInIdleIsAcknowledgedThenObeyed) {
  Told(Finish{Ending::kFailed, 3, "failed", {}}, 1s);
  EXPECT_FALSE(Did<Exit>());
  EXPECT_TRUE(std::holds_alternative<Finish>(*Find<SendReport>()->report.echo));
  Told(Finish{Ending::kSucceeded, 0, "changed its mind", {}}, 1'100ms);
  ASSERT_TRUE(Did<Exit>());
  EXPECT_EQ(Find<Exit>()->code, 3);  // Its first directive.
}

TEST_F(RunningAgent, FinishInRunningStopsFirst) {
  Told(Finish{Ending::kFailed, 3, "failed", {}}, 2s);
  EXPECT_TRUE(Did<SignalWorkers>());
  EXPECT_FALSE(Did<Exit>());
  Gone(3s);
  EXPECT_TRUE(Did<SendReport>());
  Feed(AgentTick{}, 3'200ms);
  EXPECT_EQ(Find<Exit>()->code, 3);
}

TEST_F(RunningAgent, DeclaredLostItStopsAndJoinsAsANewMember) {
  TellStop(1, StopCause::kDeclaredLost, 2s);
  EXPECT_EQ(state.phase, AgentPhase::kStopping);
  EXPECT_EQ(state.incarnation, Incarnation{11});
  Gone(3s);
  const NodeReport report = Find<SendReport>()->report;
  EXPECT_EQ(report.incarnation, Incarnation{99});
  EXPECT_FALSE(report.placement);
  EXPECT_FALSE(report.echo);
  EXPECT_EQ(report.floor, Generation{1});
}

// A late answer to the old membership's call must not pass for one to the new membership's.
TEST_F(RunningAgent, ANewMembershipTakesNoAnswerToTheOldOne) {
  const std::uint64_t old = state.sequence;
  TellStop(1, StopCause::kDeclaredLost, 2s);
  Gone(3s);
  while (state.sequence < old) {
    TellStop(1, StopCause::kFailure, 4s);
  }
  EXPECT_GT(state.sequence, old);
}

TEST_F(Agent, AServerOfAnEarlierTermIsNotObeyed) {
  Told(Wait{}, 1s, 7);
  Told(RunOf(1), 2s, 6);
  EXPECT_FALSE(Did<Spawn>() || Did<SendReport>());
  EXPECT_EQ(*NextWake(state, config), At(3s));
  Feed(AgentTick{}, 3s);
  EXPECT_TRUE(Did<SendReport>());
  Told(RunOf(1), 3s, 8);
  EXPECT_TRUE(Did<Spawn>());
}

// torch's clients would try for half an hour.
TEST_F(RunningAgent, WorkersThatTheStoreRefusesAreStoppedAndTheReasonIsReported) {
  Feed(StoreRefuses{{7}, "of another generation"}, 2s);
  EXPECT_FALSE(Did<SignalWorkers>());
  Feed(StoreRefuses{{1}, "the store refuses"}, 2s);
  EXPECT_TRUE(Did<SignalWorkers>());
  BothEnd(Killed{kTerm}, Killed{kTerm}, 3s);
  const NodeReport report = ReportOf(state, config);
  EXPECT_EQ(report.outcome, Outcome::kSpawnFailed);
  EXPECT_EQ(report.spawn_failure, "the store refuses");
  TellRun(2, 4s);
  EXPECT_EQ(ReportOf(state, config).spawn_failure, "");
}

}  // namespace
}  // namespace ddprun
