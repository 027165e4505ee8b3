// The cost of a worker's failure, and when another restart would not help.
#include "rendezvous/core/judgement.h"

#include <gtest/gtest.h>

#include "rendezvous/core/roster.h"
#include "rendezvous/core/testing/scenario.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {
// One node whose worker fails again and again.
struct Failing : testing::Test {
  Scenario scenario;
  RunSpec spec{.max_restarts = 100, .restart_backoff = Duration{0}};
  std::optional<Node> node;
  Time now = At(0s);

  void Begin() {
    node.emplace(scenario, "n0", spec);
    node->Says(now);
  }
  void Asks(std::uint64_t step, Duration after) {
    WorkerFailure failure = Failure(Exited{75});
    failure.said_hello = true;
    Fail(step, after, failure);
  }
  // Runs the world, reaches `step`, fails `after` later.
  void Fail(std::uint64_t step, Duration after, const WorkerFailure& failure = Failure(Exited{3})) {
    node->Hosts(now);
    now += after;
    scenario.state.nodes.begin()->second.expires = now + 1s;  // It has been heard of meanwhile.
    RefileAll(scenario.state, scenario.config);
    node->report.progress = step;
    node->Ends(Outcome::kFailed, {failure}, now);
    node->report.progress = 0;
  }
  const Finish& End() const { return *scenario.state.outcome; }

  // Fails after `life`, and waits for the next world: from the start of this one to its start.
  Duration Spacing(Duration life, const WorkerFailure& failure = Failure(Exited{3})) {
    const Time formed = scenario.state.world->formed;
    Fail(0, life, failure);
    while (scenario.state.phase == Phase::kGathering) {
      now = *NextWake(scenario.state, scenario.config);
      node->Hears(now).Says(now);
      scenario.Tick(now);
    }
    return std::chrono::floor<Duration>(scenario.state.world->formed - formed);
  }
};

// A worker whose program lacks a module.
WorkerFailure LacksModule(const std::string& module = "gone") {
  WorkerFailure failure = Failure(Exited{1});
  failure.last_lines =
      "Traceback (most recent call last):\n  File \"w.py\", line 1\n"
      "ModuleNotFoundError: No module named '" +
      module + "'\n";
  return failure;
}

TEST_F(Failing, WithAWindowOldFailuresAreForgiven) {
  spec.max_restarts = 2;
  spec.restart_window = 60s;
  Begin();
  for (int i = 0; i < 10; ++i) {
    Fail(0, 31s);
  }
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.budget.used, 10u);  // Workers see every restart.
  EXPECT_TRUE(scenario.Said("(2 of 2 within " + FormatDuration(60s) + ")"));
  Fail(0, 1s);
  EXPECT_EQ(End().exit_code, 3);
  EXPECT_NE(End().text.find("--restart-window=" + FormatDuration(60s)), std::string::npos);
}

TEST_F(Failing, ThreeFailuresWithoutProgressEndTheRun) {
  Begin();
  Fail(500, 1s);
  Fail(480, 1s);  // Resumed at its checkpoint, and died before it got as far again.
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Fail(500, 1s);
  EXPECT_EQ(End().exit_code, 76);
  EXPECT_NE(End().text.find("3 times in a row without getting beyond step 500"), std::string::npos);
  EXPECT_EQ(scenario.state.budget.used, 2u);
}

TEST_F(Failing, TheLimitCanBeSwitchedOff) {
  spec.crash_loop_limit = 0;
  Begin();
  for (int i = 0; i < 20; ++i) {
    Fail(7, 1s);
  }
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

// Began from a state that is no longer valid: no worker's fault. Else a worker that asks each time
// would be started for ever.
TEST_F(Failing, AWorkerThatAsksToBeStartedAgainIsExcusedOnce) {
  spec.max_restarts = 2;
  Begin();
  Fail(0, 1s);
  Asks(0, 1s);
  EXPECT_TRUE(scenario.Said("restarting all workers (does not use a restart)"));
  EXPECT_TRUE(
      scenario.Said("ended with exit code 75: it asks to be started again: restarting all workers "
                    "(does not use a restart)"));
  EXPECT_EQ(scenario.state.budget.used, 1u);
  Asks(0, 1s);
  EXPECT_EQ(scenario.state.budget.used, 2u);
  Asks(0, 1s);
  EXPECT_EQ(End().exit_code, 1);
  EXPECT_NE(End().text.find("2 of 2 restarts are used"), std::string::npos);
}

TEST_F(Failing, AnExcuseNeedsNoBudget) {
  spec.max_restarts = 1;
  Begin();
  Fail(0, 1s);
  Asks(0, 1s);
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Fail(0, 1s);
  EXPECT_EQ(End().exit_code, 3);
}

// No world came before it that could have left what counts no more.
TEST_F(Failing, ARunsFirstWorldIsNotExcused) {
  spec.max_restarts = 0;
  Begin();
  Asks(7, 1s);
  EXPECT_EQ(End().exit_code, 1);
  EXPECT_NE(End().text.find("no restarts are allowed"), std::string::npos);
}

TEST_F(Failing, AnExcuseIsNoProgress) {
  Begin();
  Fail(7, 1s);
  Asks(7, 1s);
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Fail(7, 1s);
  EXPECT_EQ(End().exit_code, 76);
  EXPECT_EQ(scenario.state.budget.used, 1u);
}

// An outage of 20 s is outlasted by five restarts, and the first one costs no time.
TEST_F(Failing, RestartsWithoutProgressAreSpacedOut) {
  spec.restart_backoff = 15s;
  Begin();
  EXPECT_EQ(Spacing(100ms), 100ms);
  for (const Duration expected : {2s, 4s, 8s, 15s, 15s}) {
    EXPECT_EQ(Spacing(100ms), expected);
  }
  EXPECT_EQ(Spacing(17s), 17s);  // It has lived longer than that: no pause.
}

TEST_F(Failing, APauseIsReportedToAll) {
  spec.restart_backoff = 16s;
  Begin();
  Fail(0, 100ms);
  Fail(0, 100ms);
  const WaitReason reason = node->Waits(now);
  EXPECT_EQ(reason.what, WaitFor::kBackoff);
  EXPECT_EQ(reason.losses, 2u);
  EXPECT_EQ(reason.remaining, 1'900ms);
  EXPECT_NE(Describe(reason).find("failed 2 times in a row"), std::string::npos);
}

TEST_F(Failing, APauseIsAPartOfTheRecovery) {
  spec.restart_backoff = 16s;
  Begin();
  Spacing(100ms);
  EXPECT_EQ(scenario.state.startups.past.back().backoff, std::nullopt);
  EXPECT_EQ(Spacing(100ms), Duration(2s));
  const Startup& last = scenario.state.startups.past.back();
  EXPECT_EQ(last.backoff, 1'900ms);
  EXPECT_EQ(last.form, Duration(0));
  EXPECT_NE(Describe(last).find("stop 0, backoff 1900, form 0"), std::string::npos)
      << Describe(last);
}

// A call that is answered first when a server has stood still would else wait for nodes that are
// here: "waiting for nodes: 3 of 1 are here". (Seed 1651099488682.)
TEST_F(Failing, AtTheEndOfAPauseNoNodeIsWaitedFor) {
  spec.restart_backoff = 16s;
  Begin();
  Fail(0, 100ms);
  Fail(0, 100ms);
  const WaitReason reason = node->Waits(now + 5s);
  EXPECT_EQ(reason.what, WaitFor::kLastCall);
  EXPECT_EQ(reason.remaining, 0ms);
}

TEST_F(Failing, AMinuteOfLifeIsProgress) {
  spec.restart_backoff = 16s;
  Begin();
  Spacing(100ms);
  EXPECT_EQ(Spacing(100ms), Duration(2s));
  EXPECT_EQ(Spacing(60s), Duration(60s));
  EXPECT_EQ(Spacing(100ms), Duration(100ms));
  EXPECT_EQ(Spacing(100ms), Duration(2s));
}

TEST_F(Failing, ACollectiveIsProgress) {
  spec.restart_backoff = 16s;
  Begin();
  Spacing(100ms);
  Spacing(100ms);
  ProgressGroup group;
  group.step = 1;
  group.source = ProgressSource::kCollectives;
  node->report.progress_groups = {group};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Spacing(100ms), Duration(100ms));
  }
}

// A SIGKILL from outside says nothing about the program.
TEST_F(Failing, AKilledWorkerIsReplacedAtOnce) {
  spec.restart_backoff = 16s;
  Begin();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Spacing(100ms, Failure(Killed{9})), Duration(100ms));
  }
  EXPECT_EQ(Spacing(100ms, Failure(Killed{11})), Duration(100ms));
  EXPECT_EQ(Spacing(100ms, Failure(Killed{11})), Duration(2s));
}

TEST_F(Failing, APauseTakesNothingFromTheTimeToJoin) {
  spec.restart_backoff = 16s;
  spec.join_timeout = 1s;
  Begin();
  Spacing(100ms);
  EXPECT_EQ(Spacing(100ms), Duration(2s));
}

TEST_F(Failing, ThreeEqualErrorsThatCannotHealEndTheRun) {
  Begin();
  Fail(0, 1s, LacksModule());
  Fail(0, 1s, LacksModule());
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Fail(0, 1s, LacksModule());
  EXPECT_EQ(End().exit_code, 76);
  EXPECT_TRUE(End().gave_up);
  EXPECT_NE(End().text.find("3 times in a row with the same error and without progress"),
            std::string::npos);
}

TEST_F(Failing, ErrorsThatDifferOrHealHaveTheirWholeBudget) {
  Begin();
  for (int i = 0; i < 10; ++i) {
    Fail(0, 1s, LacksModule());
    Fail(0, 1s, LacksModule());
    Fail(0, 1s, LacksModule("other"));
    Fail(0, 1s);
  }
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST_F(Failing, AnErrorAfterProgressIsNotPermanent) {
  spec.crash_loop_limit = 5;
  Begin();
  for (std::uint64_t step = 1; step < 10; ++step) {
    Fail(step, 1s, LacksModule());
  }
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST_F(Failing, AProgramThatCannotBeStartedIsAPermanentError) {
  Begin();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scenario.state.phase, Phase::kRunning);
    node->report.spawn_failure = "cannot execute ./train: No such file or directory";
    node->Hosts(now);
    node->Ends(Outcome::kFailed, {}, now);
  }
  EXPECT_EQ(End().exit_code, 76);
}

}  // namespace
}  // namespace ddprun
