// When a running world stops for nodes that come later, and for whom it does not.
#include "rendezvous/core/growth.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {
constexpr RunSpec kUpToFour{.min_nodes = 1, .max_nodes = 4, .last_call = 0s};

// One node that hosts generation 1 of a run that may have four.
struct Arrivals : testing::Test {
  Scenario scenario;
  Node a{scenario, "n0", kUpToFour};
  Node b{scenario, "n1", kUpToFour};
  Node c{scenario, "n2", kUpToFour};
  Node d{scenario, "n3", kUpToFour};
  void SetUp() override { FormWorld(At(0s), a); }
  void Refresh(Node& node, Time now) {
    scenario.Pass(now);
    node.Hears(now).Says(now);
  }
};

// Else ten nodes that a scheduler starts one after the other make ten restarts.
TEST_F(Arrivals, ThoseThatComeCloseTogetherMakeOneRestart) {
  b.Says(At(1s));
  EXPECT_EQ(b.Waits(At(1s)).what, WaitFor::kSettling);
  EXPECT_EQ(b.Waits(At(1s)).remaining, 150ms);
  scenario.Pass(At(1'100ms));
  c.Says(At(1'100ms));
  scenario.Pass(At(1'249ms));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  scenario.Pass(At(1'250ms));
  EXPECT_EQ(std::get<Stop>(a.Told(At(1'250ms))).cause, StopCause::kScaleUp);
  EXPECT_TRUE(scenario.Said("nodes n1 n2 join"));
  a.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_EQ(scenario.state.world->members.size(), 3u);
  EXPECT_EQ(scenario.state.budget.used, 0u);
}

// The losing side of a split would stop its workers for a world that it must not form.
TEST_F(Arrivals, NoWorldIsStoppedWhileTheClaimIsInDoubt) {
  scenario.Feed(ClaimGood{At(500ms)}, At(0s));
  b.Says(At(1s));
  Refresh(a, At(2s));
  Refresh(b, At(2s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  scenario.Feed(ClaimGood{At(5s)}, At(2'500ms));
  scenario.Pass(At(2'650ms));
  EXPECT_EQ(std::get<Stop>(a.Told(At(2'650ms))).cause, StopCause::kScaleUp);
}

// Regardless of the server's own start options, the nodes get so long to save.
TEST_F(Arrivals, APlannedStopLastsAsLongAsTheRunsNodesWerePromised) {
  RunSpec patient = kUpToFour;
  patient.shutdown_timeout = 60s;
  scenario.state.spec = a.report.spec = b.report.spec = patient;
  Refresh(a, At(1s));
  b.Says(At(1s));
  for (auto when = 2s; when <= 62s; when += 1s) {
    scenario.Pass(At(when));
    a.Hears(At(when)).Says(At(when));
    b.Hears(At(when)).Says(At(when));
  }
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
  EXPECT_FALSE(scenario.state.world->members[0].lost);
  Node hurried(scenario, "n4", kUpToFour);
  hurried.Says(At(62s));
  EXPECT_TRUE(scenario.Said("--shutdown-timeout=1 min"));
}

// A stream of arrivals must not put the growth off for ever.
TEST_F(Arrivals, TheFirstArrivalWaitsForASecondAtMost) {
  constexpr RunSpec kMany{.min_nodes = 1, .max_nodes = 100, .last_call = 0s};
  Scenario other;
  Node first(other, "n0", kMany);
  FormWorld(At(0s), first);
  std::vector<Node> later;
  int came = 0;
  for (; other.state.phase == Phase::kRunning && came < 50; ++came) {
    const Time now = At(1s + 100ms * came);
    other.Pass(now);
    later.emplace_back(other, "m" + std::to_string(came), kMany).Says(now);
  }
  EXPECT_GE(came, 10);
  EXPECT_LE(came, 12);
}

// Joins as n1 with a new agent and is lost again, `times` times, a second each.
void Flap(Arrivals& test, Time from, int times) {
  for (int i = 0; i < times; ++i) {
    const Time now = from + 1s * i;
    test.Refresh(test.a, now);
    Node flapping(test.scenario, "n1", kUpToFour, 100 + static_cast<std::uint64_t>(i));
    flapping.Says(now);
    flapping.Closes(now + 1ms);
    test.scenario.Pass(now + 201ms);
  }
}

TEST_F(Arrivals, OneLossIsForgiven) {
  scenario.config.settle = 800ms;  // Beyond the disconnect grace: it never makes the world stop.
  Flap(*this, At(1s), 1);
  b.Says(At(2s));
  EXPECT_EQ(b.Waits(At(2s)).what, WaitFor::kSettling);
}

TEST_F(Arrivals, AFlappingNodeIsHeldBackForAGrowingTime) {
  scenario.config.settle = 800ms;
  Flap(*this, At(1s), 3);  // Lost at 1.2, 2.2 and 3.2 s.
  Refresh(a, At(3'500ms));
  b.Says(At(3'500ms));
  const WaitReason reason = b.Waits(At(3'500ms));
  EXPECT_EQ(reason.what, WaitFor::kHeldBack);
  EXPECT_EQ(reason.losses, 3u);
  EXPECT_EQ(Describe(reason), "held back for 7.7 s: this node was lost 3 times in 3.0 s");
  EXPECT_EQ(scenario.state.growth.go, std::nullopt);
  for (Duration t = 5s; t <= 11s; t += 1s) {
    Refresh(a, At(t));
    b.Hears(At(t)).Says(At(t));
    EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  }
  scenario.Pass(At(12'100ms));
  EXPECT_EQ(scenario.state.phase, Phase::kDraining);
}

// A hold that ended while this server stood still must not make every later report look late: that
// would put off all leases again and again.
TEST_F(Arrivals, AnOverdueHoldIsForgivenOnce) {
  scenario.config.settle = 800ms;
  Flap(*this, At(1s), 3);
  Refresh(a, At(3'500ms));
  b.Says(At(3'500ms));
  for (Duration t = 20s; t <= 21s; t += 100ms) {  // Queued up; the timer is still to come.
    a.Hears(At(t)).Says(At(t));
  }
  EXPECT_LE(scenario.state.nodes.at({"n1", {1}}).expires, At(21s + 3s + 1s));
}

// Rather a doubtful node than no world.
TEST_F(Arrivals, WhereTheOthersAreTooFewAFlappingNodeIsTaken) {
  constexpr RunSpec kPair{.min_nodes = 2, .max_nodes = 3, .last_call = 0s};
  Scenario other;
  NoteLoss(other.state.growth, "n1", At(0s));
  NoteLoss(other.state.growth, "n1", At(1s));
  Node x(other, "n0", kPair), y(other, "n1", kPair), z(other, "n2", kPair);
  x.Says(At(2s));
  y.Says(At(2s));
  EXPECT_TRUE(y.IsTold<ddprun::Run>(At(2s)));
  EXPECT_EQ(other.state.index.held, 1u);
}

TEST_F(Arrivals, LossesAreForgottenAfterTenMinutes) {
  Growth growth;
  NoteLoss(growth, "n1", At(0s));
  NoteLoss(growth, "n1", At(1s));
  EXPECT_TRUE(HoldBack(growth, "n1", At(2s)));
  EXPECT_FALSE(HoldBack(growth, "n2", At(2s)));
  EXPECT_FALSE(HoldBack(growth, "n1", At(6s)));  // Stayed away for long enough by itself.
  EXPECT_FALSE(HoldBack(growth, "n1", At(700s)));
  NoteLoss(growth, "n1", At(700s));
  EXPECT_EQ(growth.losses.at("n1").size(), 1u);
}

TEST_F(Arrivals, TheHoldIsBounded) {
  Growth growth;
  for (int i = 0; i < 40; ++i) {
    NoteLoss(growth, "n1", At(1s * i));
  }
  EXPECT_EQ(HoldBack(growth, "n1", At(40s))->until, At(39s + 120s));
}

}  // namespace
}  // namespace ddprun
