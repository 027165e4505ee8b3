#include "rendezvous/core/fencing.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {
constexpr RunSpec kFenced{.min_nodes = 1, .max_nodes = 2, .fence_after = Duration(10'000)};

// Two nodes host generation 1; n1 is not heard again after second 1.
struct Fencing : testing::Test {
  Scenario scenario;
  Node a{scenario, "n0", kFenced};
  Node b{scenario, "n1", kFenced};

  void SetUp() override { Form(kFenced); }
  void Form(const RunSpec& spec) {
    scenario.state = {};
    scenario.state.run_id = "run";
    a.report.spec = b.report.spec = spec;
    a.Says(At(0s));
    b.Says(At(0s));
    a.Hosts(At(1s));
    b.Hosts(At(1s));
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  }
  // With workers of n1 alone.
  void BothReportToANewServer() {
    scenario.Restart();
    a.report.outcome = Outcome::kStopped;
    a.report.hosting = Hosting::kNothing;
    a.report.floor = {1};
    a.Says(At(20s));
    b.Says(At(20s));
  }
  // n0 continues talking, and stops its workers when it gets the directive.
  void PassWithA(Duration from, Duration until) {
    for (Duration when = from; when <= until; when += 500ms) {
      scenario.Pass(At(when));
      if (a.IsTold<Stop>(At(when)) && a.report.hosting == Hosting::kWorkers) {
        a.Ends(Outcome::kStopped, {}, At(when));
      } else {
        a.Hears(At(when)).Says(At(when));
      }
    }
  }
};

// It has been answered, so it does not kill them as one that is cut off does: they have their
// grace.
TEST_F(Fencing, ALostNodeThatComesBackWithWorkersIsWaitedFor) {
  PassWithA(2s, 9s);
  ASSERT_EQ(std::get<Stop>(b.Told(At(9s))).cause, StopCause::kDeclaredLost);
  b.report.hosting = Hosting::kStopping;
  b.Hears(At(9s)).Says(At(9s));
  PassWithA(10s, 14s);
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  b.Ends(Outcome::kStopped, {}, At(14s));
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
}

// The report that ends its fence may say that it has finished: then no next world is formed first.
TEST_F(Fencing, ALostNodeThatComesBackWithItsSuccessEndsTheRun) {
  a.Ends(Outcome::kSucceeded, {}, At(2s));
  PassWithA(2'500ms, 6s);
  ASSERT_EQ(scenario.state.phase, Phase::kDraining);
  b.Ends(Outcome::kSucceeded, {}, At(7s));
  EXPECT_TRUE(HasEnded(scenario.state));
  EXPECT_EQ(scenario.state.world->generation, Generation{1});
}

// The end of a worker that SIGKILL does not end is unknown: it is waited for as long as for any
// other.
TEST_F(Fencing, WorkersThatOutliveTheirEndDoNotHoldTheOthersForEver) {
  PassWithA(2s, 9s);
  b.report.hosting = Hosting::kStopping;
  b.Hears(At(9s)).Says(At(9s));
  b.report.unkillable = 1;
  for (auto when = 10s; when < 20s; when += 1s) {
    PassWithA(when, when);
    b.Hears(At(when)).Says(At(when));
    EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  }
  PassWithA(20s, 20s);
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
  EXPECT_EQ(scenario.state.world->members.size(), 1u);
}

// Waiting on would cost time for nothing.
TEST_F(Fencing, AProcessThatComesBackWithoutWorkersEndsItsFence) {
  PassWithA(2s, 6s);
  ASSERT_EQ(scenario.state.phase, Phase::kDraining);
  Node back(scenario, "n1", kFenced, 2);
  back.report.former_incarnation = b.report.incarnation;
  back.report.floor = {1};
  back.Says(At(6'500ms));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(scenario.state.world->members.size(), 2u);
}

TEST_F(Fencing, BeforeItHasPromisedItDoesNot) {
  PassWithA(2s, 6s);
  Node back(scenario, "n1", kFenced, 2);
  back.report.former_incarnation = b.report.incarnation;
  back.Says(At(6'500ms));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

// (Seeds 558918356947, 521544365837.) Another machine of the same name knows nothing about the
// workers of the lost one, whatever it has promised, perhaps to another server.
TEST_F(Fencing, AnotherMachineOfItsNameDoesNot) {
  PassWithA(2s, 6s);
  Node other(scenario, "n1", kFenced, 2);
  other.report.floor = {1};
  other.Says(At(6'500ms));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  other.report.floor = {3};
  other.Says(At(6'600ms));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  other.report.former_incarnation = {77};
  other.Says(At(6'700ms));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

TEST_F(Fencing, ANewServerWaitsForThoseItHasNeverHeard) {
  scenario.Restart();
  a.Says(At(20s));
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  PassWithA(20'500ms, 33'500ms);
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  PassWithA(34s, 34s);  // Recovery takes a lease.
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
}

// (Seed 80201407850.) A new server's own answers count, however late in its recovery.
TEST_F(Fencing, ANodeLostWhileAServerRecoversHasItsFenceFromThen) {
  BothReportToANewServer();
  PassWithA(20'500ms, 22s);
  b.Hears(At(22s)).Says(At(22s));
  PassWithA(22'500ms, 24s);
  b.Hears(At(24s)).Says(At(24s));
  PassWithA(24'500ms, 31s);  // The fence of nodes that were never heard: 20 s, 10 s, and 1 s.
  ASSERT_EQ(scenario.state.phase, Phase::kDraining);
  PassWithA(31'500ms, 34'500ms);
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  PassWithA(35s, 35s);
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
}

// Whom it has forgotten meanwhile may have heard it last.
TEST_F(Fencing, ItDoesSoHoweverLongTheFence) {
  RunSpec spec = kFenced;
  spec.fence_after = 60s;
  Form(spec);
  BothReportToANewServer();
  for (auto when = 22s; when <= 44s; when += 2s) {
    PassWithA(when, when);
    b.Hears(At(when)).Says(At(when));
  }
  PassWithA(45s, 104s);
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  PassWithA(105s, 106s);
  EXPECT_EQ(scenario.state.world->generation, Generation{2});
}

}  // namespace
}  // namespace ddprun
