// When a machine is looked at (--node-check), and what its verdict means for what it says and does.
#include "agent/core/fitness.h"

#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""min;

struct Checked : Agent {
  void SetUp() override {
    config.checks_node = true;
    Agent::SetUp();
  }
  void Verdict(const std::string& unfit, Duration when) { Feed(NodeChecked{unfit}, when); }
  NodeReport Report() const { return ReportOf(state, config); }
  // A worker of generation 1 ends so, and nothing of it is left.
  void RunsAndEnds(ExitStatus status) {
    Verdict("", 1s);
    TellRun(1, 2s);
    BothEnd(status, Killed{kTerm}, 3s);
  }
};

// It is a spare: a world that takes it in would break.
TEST_F(Checked, OneWhoseGpuBreaksWhileItWaitsIsLookedAtAgain) {
  Verdict("", 1s);
  Feed(HostLooked{{{"disk.run", "1 GiB free", false}}, ""}, 11s);
  EXPECT_FALSE(Did<CheckNode>());
  EXPECT_FALSE(Did<SendReport>());  // It travels with the next one.
  EXPECT_EQ(Report().facts.front().name, "disk.run");
  Feed(HostLooked{{{"gpu3", "has fallen off the bus", true}}, "GPU 3"}, 21s);
  EXPECT_TRUE(Did<CheckNode>());
  Verdict("GPU 3", 22s);
  EXPECT_EQ(Report().unfit, "GPU 3");
  Feed(HostLooked{{}, "GPU 3"}, 31s);  // Its pause is not over.
  EXPECT_FALSE(Did<CheckNode>());
}

TEST_F(Checked, WhileWorkersRunNoNodeIsJudgedByAFact) {
  Verdict("", 1s);
  TellRun(1, 2s);
  Feed(HostLooked{{}, "GPU 3"}, 3s);
  EXPECT_FALSE(Did<CheckNode>());
  Ends(0, Exited{1}, 4s);
  Feed(HostLooked{{}, "GPU 3"}, 5s);
  EXPECT_FALSE(Did<CheckNode>());
  Ends(1, Killed{kTerm}, 6s);
  Gone(6s);
  EXPECT_EQ(Find<CheckNode>()->cause, CheckCause::kFailure);
}

TEST_F(Agent, ManyFactsAreCutToAReports) {
  Feed(HostLooked{HostFacts(100, HostFact{"disk", "full", true}), ""}, 1s);
  EXPECT_EQ(ReportOf(state, config).facts.size(), kMaxFacts);
}

// Else a server would trust a machine that no check has looked at.
TEST_F(Checked, TheFirstReportSaysThatItIsLookedAt) {
  EXPECT_EQ(Find<CheckNode>()->cause, CheckCause::kStart);
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_TRUE(Find<SendReport>()->report.checking);
  Verdict("", 1s);
  ASSERT_TRUE(Did<SendReport>());  // At once: others may wait for it.
  EXPECT_FALSE(Find<SendReport>()->report.checking);
}

TEST_F(Checked, NothingIsStartedWhileItIsLookedAt) {
  TellRun(1, 1s);
  EXPECT_FALSE(Did<Spawn>());
}

// The report that its workers are gone must not make it a candidate for a moment.
TEST_F(Checked, AFailureOfItsWorkersMakesItSuspectUntilTheyAreGone) {
  Verdict("", 1s);
  TellRun(1, 2s);
  Ends(0, Exited{1}, 3s);
  EXPECT_FALSE(Did<CheckNode>());
  Ends(1, Killed{kTerm}, 3s);
  Gone(3s);
  EXPECT_EQ(Find<CheckNode>()->cause, CheckCause::kFailure);
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_EQ(Find<SendReport>()->report.hosting, Hosting::kNothing);
  EXPECT_TRUE(Find<SendReport>()->report.checking);
}

TEST_F(Checked, AFailureElsewhereIsNoReasonToLook) {
  Verdict("", 1s);
  TellRun(1, 2s);
  TellStop(1, StopCause::kScaleUp, 3s);
  Ends(0, Killed{kTerm}, 4s);
  Ends(1, Exited{1}, 4s);  // It dies of being stopped.
  Gone(4s);
  EXPECT_FALSE(Did<CheckNode>());
  TellRun(2, 5s);
  Feed(WorkerEnded{{2}, 0, 100, Exited{75}, true}, 6s);  // Start me again.
  Ends(1, Killed{kTerm}, 6s);
  Gone(6s);
  EXPECT_FALSE(Did<CheckNode>());
}

TEST_F(Checked, AHangAndAFailedStartAreReasonsToo) {
  Verdict("", 1s);
  TellRun(1, 2s);
  TellStop(1, StopCause::kHang, 3s);
  BothEnd(Killed{9}, Killed{9}, 4s);
  EXPECT_TRUE(Did<CheckNode>());
  Verdict("", 5s);
  TellRun(2, 6s);
  Feed(SpawnFailed{{2}, "no such file", {"n0", 3}}, 7s);
  EXPECT_TRUE(Did<CheckNode>());
}

TEST_F(Checked, ALeavingNodeIsNotLookedAt) {
  Verdict("", 1s);
  TellRun(1, 2s);
  Ends(0, Exited{1}, 3s);
  Feed(SignalArrived{kTerm}, 3s);
  Ends(1, Killed{kTerm}, 3s);
  Gone(3s);
  EXPECT_FALSE(Did<CheckNode>());
}

TEST_F(Checked, OneThatIsRefusedIsLookedAtAgainLaterEachTime) {
  RunsAndEnds(Exited{1});
  Duration now = 10s;
  Verdict("bad", now);
  for (const Duration pause :
       {Duration(1min), Duration(2min), Duration(4min), Duration(8min), Duration(8min)}) {
    EXPECT_EQ(state.fitness.again, At(now + pause));
    Told(Wait{}, now + pause - 1ms);  // The server is there all the time.
    Feed(AgentTick{}, now + pause - 1ms);
    EXPECT_FALSE(Did<CheckNode>());
    now += pause;
    EXPECT_LE(*NextWake(state, config), At(now));
    Feed(AgentTick{}, now);
    ASSERT_TRUE(Did<CheckNode>());
    EXPECT_EQ(Find<CheckNode>()->cause, CheckCause::kUnfit);
    EXPECT_EQ(Report().unfit, "bad");  // Until it passes, no node waits for it.
    EXPECT_FALSE(Report().checking);
    Verdict("bad", now);
  }
  now += 8min;
  Told(Wait{}, now - 1ms);
  Feed(AgentTick{}, now);
  Verdict("", now);
  EXPECT_EQ(Report().unfit, "");
  EXPECT_FALSE(state.fitness.again.has_value());
  TellRun(2, now + 1s);
  EXPECT_TRUE(Did<Spawn>());
}

// Once: a node may be broken for days.
TEST_F(Checked, TheSameReasonIsSaidOnceAndAnotherOneAgain) {
  const auto loud = [&] { return Did<Say>() && Find<Say>()->level == NoticeLevel::kWarning; };
  Verdict("bad", 1s);
  EXPECT_TRUE(loud());
  Told(Wait{{.what = WaitFor::kUnfit, .unfit = {"bad"}}}, 2s);
  EXPECT_EQ(Find<Say>()->level, NoticeLevel::kDetail);
  Told(Wait{}, 60s);
  Feed(AgentTick{}, 61s);
  Verdict("bad", 62s);
  EXPECT_FALSE(loud());
  Told(Wait{}, 181s);
  Feed(AgentTick{}, 182s);
  Verdict("worse", 183s);
  EXPECT_TRUE(loud());
}

TEST_F(Checked, AloneTheEndOfTheRunSaysIt) {
  config.alone = true;
  Verdict("bad", 1s);
  EXPECT_EQ(Find<Say>()->level, NoticeLevel::kDetail);
}

TEST_F(Checked, PeopleHearOnceOfACheckThatLasts) {
  EXPECT_EQ(NextWake(state, config), At(1s));
  Feed(AgentTick{}, 1s);
  EXPECT_NE(Find<Say>()->text.find("waiting for its result"), std::string::npos);
  Feed(AgentTick{}, 2s);
  EXPECT_FALSE(Did<Say>());
  Verdict("", 3s);
  TellRun(1, 4s);
  EXPECT_TRUE(Did<Spawn>());
}

TEST_F(Checked, AReasonIsNoLongerThanTheWireTakes) {
  Verdict(std::string(10'000, 'x'), 1s);
  EXPECT_EQ(Report().unfit.size(), kMaxUnfit);
}

TEST_F(Checked, TheEndOfTheRunDoesNotWaitForAVerdict) {
  Told(Finish{Ending::kSucceeded, 0, "done", {}}, 1s);
  Feed(AgentTick{}, 1s + 200ms);
  ASSERT_TRUE(Did<Exit>());
  Verdict("late", 2s);
  EXPECT_FALSE(Did<SendReport>());
}

struct Lacking : Agent {
  void SetUp() override {
    config.cannot_start = "no train.py";
    config.checks_node = true;
    Agent::SetUp();
  }
};

// A directive to run changes nothing: its workers would fail, and a node check would not help.
TEST_F(Lacking, OneThatCannotStartSaysSoAndStartsNothing) {
  EXPECT_FALSE(Did<CheckNode>());
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_TRUE(CannotStart(Find<SendReport>()->report));
  EXPECT_EQ(Find<SendReport>()->report.unfit, "no train.py");
  TellRun(1, 1s);
  EXPECT_FALSE(Did<Spawn>());
  TellStop(1, StopCause::kDeclaredLost, 2s);
  EXPECT_TRUE(CannotStart(ReportOf(state, config)));
}

// A run of MIN:MAX nodes that waits for others may be long in coming.
TEST_F(Lacking, OneThatCannotStartLeavesAfterItHasInformedTheOthers) {
  for (int i = 1; i < 30; ++i) {
    Told(Wait{}, std::chrono::seconds(i));
  }
  EXPECT_EQ(ReportOf(state, config).leaving, Leaving::kNo);
  Feed(AgentTick{}, 30s);
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_EQ(Find<SendReport>()->report.leaving, Leaving::kLeave);
}

TEST_F(Lacking, OneThatCannotStartDoesNotWaitForAServerForLong) {
  Feed(CallFailed{state.sequence, "nobody there"}, 1s);
  Feed(AgentTick{}, 29s);
  EXPECT_FALSE(Did<Exit>());
  Feed(AgentTick{}, 30s);
  EXPECT_EQ(Find<Exit>()->code, 2);
  EXPECT_NE(Find<Exit>()->text.find("no train.py"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
