#include "agent/core/fencing.h"

#include <gtest/gtest.h>

#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

struct Fenced : Agent {
  void SetUp() override {
    config.spec.fence_after = Duration(10'000);
    Agent::SetUp();
  }
};

TEST_F(Fenced, ANodeWithoutAnAnswerKillsItsWorkers) {
  TellRun(1, 1s);  // The next report leaves now,
  TellRun(1, 2s);  // is answered a second later, and another one leaves.
  EXPECT_EQ(*NextWake(state, config), At(11s));  // From when the answered one was sent.
  Feed(CallFailed{state.sequence, "no route", false}, 4s);
  ASSERT_TRUE(Did<Say>());
  EXPECT_NE(Find<Say>()->text.find("after 10.0 s without an answer"), std::string::npos);
  Feed(AgentTick{}, 10'900ms);
  EXPECT_FALSE(Did<KillWorkers>());
  Feed(AgentTick{}, 11s);
  ASSERT_TRUE(Did<KillWorkers>());
  EXPECT_FALSE(Did<SignalWorkers>());
  EXPECT_NE(Find<Say>()->text.find("--fence-after"), std::string::npos);
}

// A kill by the fence is no worker's failure: it uses no restart.
TEST_F(Fenced, TheirEndIsNoFailure) {
  TellRun(1, 1s);
  Feed(AgentTick{}, 11s);
  BothEnd(Killed{9}, Killed{9}, 11s);
  const NodeReport report = ReportOf(state, config);
  EXPECT_EQ(report.hosting, Hosting::kNothing);
  EXPECT_EQ(report.outcome, Outcome::kStopped);
  EXPECT_TRUE(report.failures.empty());
  EXPECT_EQ(report.floor, Generation{1});
  Told(RunOf(2), 20s);  // Back, and directed to run again.
  EXPECT_TRUE(Did<Spawn>());
}

// A worker that was dying before, and was not stopped, has not finished either.
TEST_F(Fenced, AWorkerThatWasKilledBeforeHasNotSucceeded) {
  TellRun(1, 1s);
  Ends(0, Exited{0}, 9s);
  Feed(WorkerDying{{1}, 1}, 10s);
  Feed(AgentTick{}, 11s);
  ASSERT_TRUE(state.fenced);
  Ends(1, Killed{9}, 12s);
  Gone(12s);
  EXPECT_EQ(ReportOf(state, config).outcome, Outcome::kStopped);
}

TEST_F(Fenced, AnAnswerCountsFromItsQuestion) {
  TellRun(1, 1s);
  TellRun(1, 9s);
  Feed(AgentTick{}, 11s);
  EXPECT_TRUE(Did<KillWorkers>());  // The answered report was sent at 1 s: what it said is old.
}

// The others may have waited for the fence of a node that had not even begun.
TEST_F(Fenced, AnAnswerOlderThanTheFenceStartsNothing) {
  Told(Wait{}, 1s);
  EXPECT_EQ(FenceTime(state, config), std::nullopt);  // It has no workers.
  const std::optional<Directive> echo = state.echo;
  Told(RunOf(1), 11s);  // Asked at 1 s.
  EXPECT_FALSE(Did<Spawn>());
  EXPECT_NE(Find<Say>()->text.find("--fence-after"), std::string::npos);
  EXPECT_EQ(state.echo, echo);
  EXPECT_TRUE(Did<SendReport>());  // At once; failures that still hold are reported again.
  Told(RunOf(1), 12s);
  EXPECT_TRUE(Did<Spawn>());
}

}  // namespace
}  // namespace ddprun
