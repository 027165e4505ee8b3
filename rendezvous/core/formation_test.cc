#include "rendezvous/core/formation.h"

#include <gtest/gtest.h>

#include <set>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {

std::vector<std::string> Names(const World& world) {
  std::vector<std::string> names;
  for (const Member& member : world.members) {
    names.push_back(member.key.node);
  }
  return names;
}
using Order = std::vector<std::string>;

TEST(Formation, DigitsCompareAsNumbers) {
  EXPECT_TRUE(CompareNatural("n9", "n10") < 0);
  EXPECT_TRUE(CompareNatural("rack1-n2", "rack1-n11") < 0);
  EXPECT_TRUE(CompareNatural("n10", "n009") > 0);
  EXPECT_TRUE(CompareNatural("n01", "n1") != 0);  // Different names are never equal.
  EXPECT_TRUE(CompareNatural("n1", "n1") == 0);
  EXPECT_TRUE(CompareNatural("", "n1") < 0);
}

// State that workers share, and leave behind, goes by the name of their world.
TEST(Formation, RunsOfOneServerNameTheirWorldsApart) {
  const RunSpec alone{.min_nodes = 1, .max_nodes = 1};
  std::set<WorldId> names;
  for (const std::string run : {"a", "b"}) {
    for (const std::uint64_t before : {0u, 1u}) {  // Generations of a forgotten run of that name.
      Scenario scenario;
      scenario.state.run_id = run;
      scenario.state.newest = {before};
      Node(scenario, "n0", alone).Says(At(0s));
      ASSERT_TRUE(scenario.state.world);
      names.insert(scenario.state.world->id);
    }
  }
  EXPECT_EQ(names.size(), 4u);
}

TEST(Formation, NodesWithoutARankTakeTheFreePlaces) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 4, .max_nodes = 4};
  Node a(scenario, "a", spec);
  Node b(scenario, "b", spec);
  Node c(scenario, "c", spec);
  Node d(scenario, "d", spec);
  a.report.node_rank = 3;
  b.report.node_rank = 1;
  for (Node* const node : {&a, &b, &c, &d}) {
    node->Says(At(0s));
  }
  EXPECT_EQ(Names(*scenario.state.world), (Order{"c", "b", "d", "a"}));
}

TEST(Formation, RanksOfANodeAreContiguousAndRolesAreCounted) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 3, .max_nodes = 3};
  Node a(scenario, "n0", spec);
  Node b(scenario, "n1", spec);
  Node c(scenario, "n2", spec);
  a.report.workers = 2;
  b.report.workers = 3;
  b.report.role = "reader";
  c.report.workers = 4;
  a.Says(At(0s));
  b.Says(At(0s));
  c.Says(At(0s));
  const Placement p = std::get<ddprun::Run>(c.Told(At(0s))).placement;
  EXPECT_EQ(p.first_rank, 5u);
  EXPECT_EQ(p.world_size, 9u);
  EXPECT_EQ(p.role_first_rank, 2u);
  EXPECT_EQ(p.role_world_size, 6u);
  EXPECT_EQ(std::get<ddprun::Run>(b.Told(At(0s))).placement.role_world_size, 3u);
}

// Re-formation waits for a node that is still coming back, but not longer than a last call.
TEST(Formation, AReformationWaitsForTheNotReadyUntilTheLastCall) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 1, .max_nodes = 2, .max_restarts = 1, .last_call = 2s};
  Node a(scenario, "n0", spec);
  Node b(scenario, "n1", spec);
  FormWorld(At(0s), a, b);
  Node again(scenario, "n1", spec, 2);
  again.report.hosting = Hosting::kStopping;  // Still stopping workers of an older world.
  again.report.placement = Placement{};
  b.Closes(At(0s));
  again.Says(At(100ms));
  scenario.Pass(At(200ms));
  a.Ends(Outcome::kStopped, {}, At(300ms));
  EXPECT_EQ(a.Waits(At(300ms)).what, WaitFor::kLastCall);
  scenario.Pass(At(2'300ms));
  EXPECT_EQ(Names(*scenario.state.world), (Order{"n0"}));
}

// It may be on the losing side of a split: workers continue, but nothing new begins.
TEST(Formation, NoWorldIsFormedWhileTheServersClaimIsInDoubt) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 1, .max_nodes = 2, .last_call = 500ms};
  scenario.Feed(ClaimGood{At(2s)}, At(0s));
  Node a(scenario, "n0", spec);
  a.Says(At(1'900ms));
  EXPECT_EQ(a.Waits(At(1'900ms)).what, WaitFor::kLastCall);
  scenario.Pass(At(2'400ms));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  EXPECT_EQ(a.Waits(At(2'400ms)).what, WaitFor::kClaim);
  scenario.Feed(ClaimGood{At(2'600ms)}, At(2'600ms));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

}  // namespace
}  // namespace ddprun
