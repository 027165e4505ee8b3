// The effects of a scheduler's signals on a node: save, end, and report that the run may be started
// again.
#include <gtest/gtest.h>

#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

constexpr int kQuit = 3, kUsr2 = 12;

struct Preempted : Agent {
  void SetUp() override {
    config.preemptible = true;
    Agent::SetUp();
    TellRun(1, 1s);
  }
  void EndsSaying(std::uint32_t local_rank, int code, bool hello, Duration when) {
    Feed(
        WorkerEnded{state.placement->generation, local_rank, 100 + local_rank, Exited{code}, hello},
        when);
  }
  void BothEndSaying(int first, int second, Duration when, bool hello = true) {
    EndsSaying(0, first, hello, when);
    EndsSaying(1, second, hello, when);
  }
  int CodeAfter(const Finish& finish, Duration when) {
    Gone(when);
    Told(finish, when);
    Feed(AgentTick{}, when + 200ms);
    return Find<Exit>() != nullptr ? Find<Exit>()->code : -1;
  }
  const Finish stopped{Ending::kFailed, 130, "the run was stopped on request", {}};
};

TEST_F(Preempted, AnyOfItsSignalsStopsTheRunOnce) {
  Feed(SignalArrived{kUsr1}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kUsr1);
  EXPECT_FALSE(Find<SignalWorkers>()->end_at_once);
  EXPECT_EQ(Find<SendReport>()->report.leaving, Leaving::kStopRun);
  for (const int again : {kTerm, kTerm, kUsr2}) {  // As a time limit does: TERM twice in 10 ms.
    Feed(SignalArrived{again}, 2s + 10ms);
    EXPECT_FALSE(Did<SignalWorkers>());
    EXPECT_FALSE(Did<KillWorkers>());
  }
  EXPECT_EQ(*NextWake(state, config), At(32s));
}

TEST_F(Preempted, AStartThatIsNotOverIsGivenUp) {
  Feed(SignalArrived{kUsr1, /*starting=*/true}, 2s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
}

TEST_F(Preempted, ANodeThatHearsOfItFromAnotherEndsAlike) {
  TellStop(1, StopCause::kOperator, 2s);
  BothEndSaying(75, 0, 3s);
  EXPECT_EQ(CodeAfter(stopped, 3s), 75);
}

// A scheduler would start again, for ever, what has lost all it did.
TEST_F(Preempted, AWorkerThatDidNotSaveMakesItAnEndBySignal) {
  Feed(SignalArrived{kUsr2}, 2s);
  BothEndSaying(75, 1, 3s);
  EXPECT_EQ(CodeAfter(stopped, 3s), 140);
}

TEST_F(Preempted, ACodeWithoutHelloMeansNothing) {
  Feed(SignalArrived{kTerm}, 2s);
  BothEndSaying(75, 75, 3s, /*hello=*/false);
  EXPECT_EQ(CodeAfter(stopped, 3s), 143);
}

TEST_F(Preempted, ARunThatSucceedsMeanwhileHasSucceeded) {
  Feed(SignalArrived{kTerm}, 2s);
  BothEndSaying(0, 0, 3s);
  EXPECT_EQ(CodeAfter(Finish{Ending::kSucceeded, 0, "done", {}}, 3s), 0);
}

// No signal arrives: the agent itself knows when.
TEST_F(Preempted, WhenTheJobEndsSoonTheWorkersHearOfItInTime) {
  Feed(JobEndKnown{At(100s), 1'700'000'000, At(80s)}, 2s);
  EXPECT_EQ(ReportOf(state, config).job_ends_unix, 1'700'000'000);
  EXPECT_EQ(*NextWake(state, config), At(80s));
  Feed(AgentTick{}, 79s);
  EXPECT_FALSE(Did<SignalWorkers>());
  Feed(AgentTick{}, 80s);
  EXPECT_EQ(Find<SignalWorkers>()->signal, kTerm);
  EXPECT_EQ(Find<SendReport>()->report.leaving, Leaving::kStopRun);
  Feed(SignalArrived{kUsr1}, 81s);  // The scheduler's own, later: one stop, not two.
  EXPECT_FALSE(Did<SignalWorkers>());
  BothEndSaying(75, 75, 82s);
  EXPECT_EQ(CodeAfter(stopped, 82s), 75);
}

TEST_F(Preempted, AnEndWithoutARequestIsOnlyShown) {
  Feed(JobEndKnown{At(100s), 1'700'000'000, {}}, 2s);
  EXPECT_FALSE(NextWake(state, config));
  Feed(AgentTick{}, 99s);
  EXPECT_TRUE(effects.empty());
}

// Kubernetes evicts one pod, or all: the same TERM for each of them.
struct Evicted : Preempted {
  void SetUp() override {
    config.leaves_alone = true;
    Preempted::SetUp();
  }
  const Finish left{Ending::kLeft, 143, "this node left the run on request", {}};
};

// The other nodes hear of it while its workers, which have nothing to save yet, start again.
TEST_F(Evicted, WorkersThatHaveJustBegunLoseNothing) {
  TellStop(1, StopCause::kLeave, 2s);
  BothEndSaying(75, 75, 3s);
  Gone(3s);
  TellRun(2, 3s);
  Feed(SignalArrived{kTerm}, 4s);
  Ends(0, Killed{kTerm}, 4s);
  Ends(1, Killed{kTerm}, 4s);
  EXPECT_EQ(CodeAfter(left, 4s), 75);
}

// Their start took long, so it was given up.
TEST_F(Evicted, WorkersThatHaveNotBegunLoseNothing) {
  Feed(SignalArrived{kTerm}, 2s);
  EXPECT_EQ(CodeAfter(left, 3s), 75);
}

TEST_F(Evicted, WorkersThatSaidHelloMustSave) {
  TellStop(1, StopCause::kLeave, 2s);
  BothEndSaying(75, 75, 3s);
  Gone(3s);
  TellRun(2, 3s);
  Feed(WorkerSpoke{0, true, {}, {}, {}}, 4s);
  Feed(SignalArrived{kTerm}, 4s);
  Ends(0, Killed{kTerm}, 4s);
  Ends(1, Killed{kTerm}, 4s);
  EXPECT_EQ(CodeAfter(left, 4s), 143);
}

TEST_F(Evicted, ADrainedNodeIsNotToBeStartedAgain) {
  TellStop(1, StopCause::kLeave, 2s);
  BothEndSaying(75, 75, 3s);
  EXPECT_EQ(CodeAfter(left, 4s), 143);
}

// --give-up-code
TEST_F(Preempted, AGivenUpRunHasTheCodeThatWasAskedFor) {
  config.give_up_code = 93;
  BothEndSaying(3, 75, 2s);
  EXPECT_EQ(CodeAfter(Finish{Ending::kFailed, 3, "failed", {}, true}, 3s), 93);
}

TEST_F(Preempted, AStoppedRunKeepsItsCode) {
  config.give_up_code = 93;
  TellStop(1, StopCause::kOperator, 2s);
  BothEndSaying(3, 75, 3s);
  EXPECT_EQ(CodeAfter(stopped, 3s), 130);
}

// Without a scheduler, by --time-limit: a person's signals keep their meaning.
TEST_F(Preempted, AnEndThatTheUserNamedMakesItRestartableToo) {
  config.preemptible = false;
  Feed(JobEndKnown{At(100s), 1'700'000'000, At(80s)}, 2s);
  Feed(AgentTick{}, 80s);
  BothEndSaying(75, 0, 82s);
  EXPECT_EQ(CodeAfter(stopped, 82s), 75);
}

// The run fails by itself while a scheduler stops its tasks because of that: not to be started
// again.
TEST_F(Preempted, AFailureElsewhereIsNotHiddenByASignal) {
  TellStop(1, StopCause::kFailure, 2s);
  Feed(SignalArrived{kTerm}, 2s);
  BothEndSaying(75, 75, 3s);
  EXPECT_EQ(CodeAfter(Finish{Ending::kFailed, 3, "failed", {}}, 3s), 3);
}

TEST_F(Preempted, WhileTheNextWorldGathersNothingIsLost) {
  BothEndSaying(3, 75, 2s);
  Gone(2s);
  Told(Wait{{.what = WaitFor::kNodes}}, 3s);
  Feed(SignalArrived{kTerm}, 4s);
  Told(stopped, 4s);
  Feed(AgentTick{}, 4s + 200ms);
  ASSERT_TRUE(Did<Exit>());
  EXPECT_EQ(Find<Exit>()->code, 75);
}

TEST_F(Agent, ASpareHasNothingToSave) {
  config.preemptible = true;
  Told(Wait{{.what = WaitFor::kSpare}}, 1s);
  Told(Finish{Ending::kFailed, 130, "the run was stopped on request", {}}, 2s);
  Feed(AgentTick{}, 2s + 200ms);
  ASSERT_TRUE(Did<Exit>());
  EXPECT_EQ(Find<Exit>()->code, 75);
}

// The terminal's keys are a person's, and a second one is in earnest.
TEST_F(Preempted, InterruptAndQuitMeanWhatTheyAlwaysDo) {
  Feed(SignalArrived{kInt}, 2s);
  EXPECT_EQ(Find<SendReport>()->report.leaving, Leaving::kStopRun);
  Feed(SignalArrived{kQuit}, 3s);
  EXPECT_TRUE(Did<KillWorkers>());
  BothEndSaying(75, 75, 3s);
  EXPECT_EQ(CodeAfter(stopped, 3s), 130);
}

}  // namespace
}  // namespace ddprun
