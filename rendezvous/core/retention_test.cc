// A run's memory of nodes and its bounds, even for nodes that are made up.
#include "rendezvous/core/retention.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "rendezvous/core/testing/pair.h"

namespace ddprun {
namespace {

WorkerFailure LongWinded(std::uint32_t rank) {
  WorkerFailure failure = Failure(Exited{1});
  failure.rank = rank;
  failure.host.assign(255, 'h');
  failure.last_lines.assign(kMaxLastLines, 'x');
  failure.details.error_file.assign(kMaxPath, 'x');
  failure.details.message.assign(kMaxErrorMessage, 'x');
  failure.details.traceback.assign(kMaxTraceback, 'x');
  failure.hang.assign(kMaxHangText, 'x');
  return failure;
}

// As large as a report can be on the wire.
void MakeLongWinded(NodeReport& report) {
  report.addresses.assign(kMaxAddressesBytes, '1');
  report.seen_at.assign(45, '1');
  report.node.resize(255, 'n');
  report.run_id = report.host = report.role = report.store.host = report.page.host =
      std::string(255, 'x');
  report.failures.assign(kMaxFailures, LongWinded(0));
  report.spawn_failure.assign(4096, 'x');
  report.progress_groups.assign(kMaxProgressGroups, ProgressGroup{.phase = std::string(255, 'p')});
  report.echo = Finish{Ending::kFailed, 1, std::string(4096, 'x'), LongWinded(0)};
  report.placement.emplace();
  report.placement->store.host.assign(255, 'x');
}

struct Kept : PairOfNodes {
  Node MadeUp(int i) { return {scenario, "made-up-" + std::to_string(i), kTwo}; }
  bool Knows(const Node& node) const {
    return scenario.state.nodes.contains({node.report.node, node.report.incarnation});
  }
};

TEST_F(Kept, AMembershipOutsideTheWorldCostsFourKilobytesAtMost) {
  Form();
  for (int i = 0; i < 10; ++i) {
    Node outsider = MadeUp(i);
    MakeLongWinded(outsider.report);
    outsider.report.run_id = "run";
    if (i % 2 == 0) {
      outsider.report.spec.max_nodes = 4'000'000'000;  // Refused, in words.
    }
    const std::size_t before = BytesOf(scenario.state);
    outsider.Says(At(1s));
    EXPECT_TRUE(Knows(outsider));
    EXPECT_LE(BytesOf(scenario.state), before + kMostOutside);
  }
}

// Asked of the allocator: what is left of 190 kB of texts.
TEST_F(Kept, NothingElseStaysOfWhatItSaid) {
  Form();
  std::vector<Node> outsiders;
  for (int i = 0; i < 100; ++i) {
    MakeLongWinded(outsiders.emplace_back(MadeUp(i)).report);
    outsiders.back().report.node = std::to_string(i);
    outsiders.back().report.run_id = "run";
  }
  const std::size_t before = mallinfo2().uordblks;
  for (Node& outsider : outsiders) {
    outsider.Says(At(1s));
  }
  EXPECT_LE(mallinfo2().uordblks - before, outsiders.size() * kMostOutside);
}

TEST_F(Kept, MadeUpMembershipsStayWithinTheBudgetOfTheRun) {
  Form();
  scenario.config.run_bytes = 100'000;
  const Directive told = a.Told(At(1s));
  for (int i = 0; i < 1'000; ++i) {
    Node outsider = MadeUp(i);
    outsider.Says(At(1s));
    ASSERT_LE(BytesOf(scenario.state), scenario.config.run_bytes);
  }
  EXPECT_GT(scenario.state.nodes.size(), 30u);
  EXPECT_EQ(a.Told(At(1s)), told);
  Node last = MadeUp(1'000);
  last.Says(At(1s));
  EXPECT_FALSE(Knows(last));
  EXPECT_EQ(last.Waits(At(1s)).what, WaitFor::kRoom);
}

TEST_F(Kept, ALostNodeIsForgottenForOneThatComes) {
  Form();
  scenario.config.run_bytes = 100'000;
  for (int i = 0; i < 1'000; ++i) {
    MadeUp(i).Says(At(1s));
  }
  a.Hears(At(3s)).Says(At(3s));
  b.Hears(At(3s)).Says(At(3s));
  scenario.Pass(At(4s));
  const std::uint64_t edition = scenario.state.edition;
  Node comes = MadeUp(1'000);
  comes.Says(At(4s));
  EXPECT_TRUE(Knows(comes));
  EXPECT_EQ(scenario.state.nodes.size(), 3u);
  EXPECT_GT(scenario.state.edition, edition);  // Their calls may be parked.
}

TEST_F(Kept, AMemberOfTheWorldIsNeverForgotten) {
  Form();
  scenario.config.run_bytes = 0;
  a.Hears(At(1s)).Says(At(1s));
  scenario.Pass(At(5s));
  MadeUp(1).Says(At(5s));
  EXPECT_TRUE(Knows(a));
  EXPECT_TRUE(scenario.state.nodes.at({"n1", Incarnation{1}}).lost);
}

// A node that was switched off again and again while the server stood still.
TEST_F(Kept, ANodeMayHaveSixtyFourMemberships) {
  Form();
  for (std::uint64_t i = 2; i <= 70; ++i) {
    Node again(scenario, "n1", kTwo, i);
    again.Says(At(1s));
    EXPECT_EQ(Knows(again), i <= kMostMemberships);
  }
  a.Hears(At(2s)).Says(At(2s));
  b.Hears(At(2s)).Says(At(2s));
  scenario.Pass(At(4s));
  Node again(scenario, "n1", kTwo, 71);
  again.Says(At(4s));
  EXPECT_TRUE(Knows(again));
  EXPECT_TRUE(Knows(b));
}

TEST_F(Kept, OutsidersDoNotStretchTheLease) {
  Form();
  for (int i = 0; i < 1'000; ++i) {
    MadeUp(i).Says(At(1s));
  }
  EXPECT_EQ(LeaseOf(scenario.state, scenario.config), scenario.config.base_lease);
}

TEST(KeptBeforeTheFirstWorld, ThoseThatWouldFormItCountForTheLease) {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 2, .max_nodes = 700};
  for (int i = 0; i < 1'000; ++i) {
    Node(scenario, "n" + std::to_string(i), spec).Says(At(0s));
    if (i == 599) {
      EXPECT_EQ(LeaseOf(scenario.state, scenario.config), 600 * scenario.config.lease_per_node);
    }
  }
  EXPECT_EQ(LeaseOf(scenario.state, scenario.config), 700 * scenario.config.lease_per_node);
}

// Else every member of a large world could cost as much as all may.
TEST_F(Kept, TextsOfFailuresGoFirst) {
  Form();
  a.Ends(Outcome::kFailed, {LongWinded(0), LongWinded(0)}, At(1s));
  ASSERT_EQ(scenario.state.phase, Phase::kDraining);
  EXPECT_EQ(scenario.state.drain->evidence[1].failure.last_lines.size(), kMaxLastLines);
  scenario.config.run_bytes = 100'000;
  a.Hears(At(2s));
  a.report.failures.assign(kMaxFailures, LongWinded(0));
  a.Says(At(2s));
  ASSERT_EQ(scenario.state.drain->evidence.size(), kMaxFailures);
  EXPECT_EQ(scenario.state.drain->evidence[0].failure.last_lines.size(), kMaxLastLines);
  EXPECT_EQ(scenario.state.drain->evidence[7].failure.last_lines, "");
  EXPECT_EQ(scenario.state.drain->evidence[7].failure.status, ExitStatus(Exited{1}));
  EXPECT_LE(scenario.state.drain->bytes, 100'000u / 4);
}

// A server that is new to the run, and a caller that claims all of a world's places.
TEST_F(Kept, PlacesInAWorldThatIsLookedForStayWithinTheBudget) {
  scenario.config.run_bytes = 100'000;
  Node liar(scenario, "n0", {.min_nodes = 1, .max_nodes = 100'000});
  MakeLongWinded(liar.report);
  liar.report.hosting = Hosting::kStopping;
  liar.report.placement->generation = {1};
  liar.report.placement->group_size = liar.report.placement->world_size = 100'000;
  for (std::uint32_t rank = 0; rank < 1'000; ++rank) {
    liar.report.placement->group_rank = liar.report.placement->first_rank = rank;
    liar.Says(At(0s));
    ASSERT_LE(BytesOf(scenario.state),
              scenario.config.run_bytes + 2 * kMostOutside);  // And its place.
  }
  EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
  EXPECT_GT(scenario.state.recovery.places.size(), 10u);
}

TEST_F(Kept, ANodeThatSaysSomethingElseEachTimeIsKeptOnce) {
  Form();
  a.Ends(Outcome::kSpawnFailed, {}, At(1s));
  for (int i = 0; i < 100; ++i) {
    a.report.spawn_failure = "cannot execute x" + std::to_string(i);
    a.Hears(At(1s)).Says(At(1s));
  }
  EXPECT_LE(scenario.state.drain->spawn_failures.size(), kMostSpawnFailures);
}

}  // namespace
}  // namespace ddprun
