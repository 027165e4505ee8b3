// The directives of nodes, and which nodes may take part: elastic worlds, ends, refusals.
#include <gtest/gtest.h>

#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {
constexpr RunSpec kElastic{.min_nodes = 1, .max_nodes = 2, .last_call = 0s};

// One node that hosts generation 1 of a run that may have two.
struct Growing : testing::Test {
  Scenario scenario;
  Node a{scenario, "n0", kElastic};
  Node b{scenario, "n1", kElastic};
  void SetUp() override { FormWorld(At(0s), a); }
};

TEST(Directives, ANodeThatComesOnceAnotherHasSucceededIsTooLate) {
  const RunSpec spec{.min_nodes = 2, .max_nodes = 3, .last_call = 1s};
  Scenario scenario;
  Node a(scenario, "n0", spec);
  Node b(scenario, "n1", spec);
  Node c(scenario, "n2", spec);
  a.Says(At(0s));
  b.Says(At(0s));
  scenario.Pass(At(1s));
  a.Hosts(At(1s));
  b.Hosts(At(1s));
  a.Ends(Outcome::kSucceeded, {}, At(2s));
  c.Says(At(2s));
  EXPECT_EQ(c.Waits(At(2s)).what, WaitFor::kFinishing);
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST_F(Growing, WithoutScaleUpALaterNodeIsASpare) {
  scenario.state.spec->scale_up = false;
  b.Says(At(1s));
  EXPECT_EQ(b.Waits(At(1s)).what, WaitFor::kNoGrowth);
}

TEST_F(Growing, AnEndedRunIsNoSuccessOfANewcomer) {
  a.Ends(Outcome::kSucceeded, {}, At(1s));
  b.Says(At(2s)).Says(At(2s));  // The first answer was lost on the way.
  EXPECT_EQ(std::get<Finish>(b.Told(At(2s))).ending, Ending::kEnded);
  EXPECT_EQ(std::get<Finish>(b.Told(At(2s))).exit_code, 69);
}

TEST_F(Growing, AReturningNodeGetsTheOutcome) {
  a.Ends(Outcome::kSucceeded, {}, At(1s));
  b.Hears(At(0s)).Says(At(2s));  // Was declared lost, has a new incarnation and a term.
  EXPECT_EQ(std::get<Finish>(b.Told(At(2s))).ending, Ending::kSucceeded);
}

// Nothing from a socket may make a world of no nodes, or wrap a generation round.
TEST(Directives, ImpossibleReportsAreRefused) {
  for (const auto& spoil : std::vector<void (*)(NodeReport&)>{
           [](NodeReport& r) { r.spec.min_nodes = 0; }, [](NodeReport& r) { r.spec.max_nodes = 0; },
           [](NodeReport& r) { r.spec.min_nodes = 3; }, [](NodeReport& r) { r.workers = 0; },
           [](NodeReport& r) { r.workers = 4'000'000'000u; },
           [](NodeReport& r) { r.floor = {~0ull}; },
           [](NodeReport& r) { r.hosting = Hosting::kWorkers; },
           [](NodeReport& r) { r.placement = Placement{.generation = {~0ull}}; }}) {
    Scenario scenario;
    Node bad(scenario, "n0", kElastic);
    spoil(bad.report);
    bad.Says(At(0s));
    scenario.Pass(At(1s));
    ASSERT_TRUE(bad.IsTold<Finish>(At(0s)));
    EXPECT_EQ(std::get<Finish>(bad.Told(At(0s))).ending, Ending::kRefused);
    EXPECT_FALSE(scenario.state.world);
    Node good(scenario, "n1", kElastic);
    good.Says(At(1s));
    scenario.Pass(At(1s));
    EXPECT_TRUE(good.IsTold<ddprun::Run>(At(1s)));
  }
}

TEST(Directives, ARunsBudgetIsNotRaisedBeyondItsLimit) {
  Scenario scenario;
  Node a(scenario, "n0", kElastic);
  a.report.restarts_used = 1'000;
  a.Says(At(0s));
}

}  // namespace
}  // namespace ddprun
