#include "rendezvous/stragglers.h"

#include <gtest/gtest.h>

#include "rendezvous/world_details.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

constexpr Time kNow{std::chrono::seconds(100)};

RankDetail Works(int ms, int step_ms = 60) {
  return {.state = RankState::kRunning,
          .step = 100,
          .step_time = milliseconds(step_ms),
          .work = milliseconds(ms)};
}

RankDetails Node(const std::vector<int>& works) {
  RankDetails details;
  for (const int ms : works) {
    details.ranks.push_back(Works(ms));
  }
  return details;
}

std::vector<std::uint32_t> RanksOf(const Stragglers& found) {
  std::vector<std::uint32_t> ranks;
  for (const Straggler& straggler : found.named) {
    ranks.push_back(straggler.rank);
  }
  return ranks;
}

Stragglers SlowestOf(const std::vector<int>& works) {
  const NodeId node = "n0";
  StepWorks table;
  const RankDetails details = Node(works);
  table.Add(node, 0, details);
  return table.Slowest();
}

TEST(Stragglers, NamesTheRankThatNeedsHalfAsMuchAgainAsMost) {
  const Stragglers found = SlowestOf({40, 41, 39, 62, 40, 40, 38, 90});
  EXPECT_EQ(RanksOf(found), (std::vector<std::uint32_t>{7, 3}));
  EXPECT_EQ(found.count, 2u);
  EXPECT_EQ(found.usual, milliseconds(40));
  EXPECT_EQ(found.least, milliseconds(38));
  EXPECT_EQ(found.most, milliseconds(90));
}

TEST(Stragglers, NamesNoRankBelowThat) {
  EXPECT_TRUE(SlowestOf({40, 40, 59, 41}).named.empty());
  EXPECT_TRUE(SlowestOf({40}).named.empty());
  EXPECT_TRUE(SlowestOf({}).named.empty());
}

TEST(Stragglers, OfTwoTheQuickerIsTheMeasure) {
  EXPECT_EQ(RanksOf(SlowestOf({60, 30})), std::vector<std::uint32_t>{0});
}

// Ranks that have reported nothing are no measure, nor are those that have ended.
TEST(Stragglers, CountsReportingRanksAlone) {
  const NodeId node = "n1";
  RankDetails details = Node({40, 40, 0, 0, 0});
  details.ranks.push_back(Works(90));
  details.ranks.back().state = RankState::kEnded;
  StepWorks table;
  table.Add(node, 8, details);
  EXPECT_EQ(table.Slowest().usual, milliseconds(40));
  EXPECT_EQ(table.Slowest().count, 0u);
}

// A rank that needs twice as long for a small part of the step keeps no other rank waiting.
TEST(Stragglers, PassesOverWorkThatNoRankWaitsFor) {
  const NodeId node = "n0";
  StepWorks table;
  const RankDetails details{.ranks = {Works(1, 100), Works(1, 100), Works(3, 100)}};
  table.Add(node, 0, details);
  EXPECT_TRUE(table.Slowest().named.empty());
}

TEST(Stragglers, NamesAFewAndCountsTheRest) {
  std::vector<int> works(40, 40);
  works.resize(60, 80);
  const Stragglers found = SlowestOf(works);
  EXPECT_EQ(found.named.size(), kMostStragglers);
  EXPECT_EQ(found.named.front().rank, 40u);
  EXPECT_EQ(found.count, 20u);
}

TEST(Stragglers, OfARunAreThoseOfItsWorld) {
  RunStatus run;
  run.nodes = {
      {.node = "n0", .in_world = true, .first_rank = 2, .rank_details = Node({40, 90})},
      {.node = "n1", .in_world = true, .first_rank = 0, .rank_details = Node({40, 40})},
      {.node = "gone", .in_world = false, .first_rank = 0, .rank_details = Node({500, 500})}};
  const Stragglers found = StragglersOf(run);
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0], (Straggler{3, "n0", milliseconds(90)}));
  EXPECT_EQ(Describe(found.named[0], found.usual),
            "rank 3 on n0 is slow: each of its last 20 steps took it 90 ms or more by itself, most "
            "ranks 40 ms");
}

TEST(NewlySlow, IsReportedOnceInAGeneration) {
  WorldDetails details;
  const NodeKey one{"n0", {7}};
  const NodeKey two{"n1", {8}};
  details.Take(one, {1}, 0, Node({40, 40}));
  details.Take(two, {1}, 2, Node({40, 90}));
  const std::vector<RunEvent> told = details.NewlySlow(kNow);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, kEventSlow);
  EXPECT_EQ(told[0].node, "n1");
  EXPECT_EQ(told[0].generation, Generation{1});
  EXPECT_TRUE(told[0].text.starts_with("rank 3 on n1 is slow")) << told[0].text;
  EXPECT_TRUE(details.NewlySlow(kNow + milliseconds(2'000)).empty());
  details.Take(one, {2}, 0, Node({90, 40}));
  details.Take(two, {2}, 2, Node({40, 40}));
  EXPECT_EQ(details.NewlySlow(kNow + milliseconds(4'000)).size(), 1u);
}

TEST(NewlySlow, IsLookedForOnceASecond) {
  WorldDetails details;
  const NodeKey one{"n0", {7}};
  details.Take(one, {1}, 0, Node({40, 40}));
  EXPECT_TRUE(details.NewlySlow(kNow).empty());
  details.Take(one, {1}, 0, Node({40, 90}));
  EXPECT_TRUE(details.NewlySlow(kNow + milliseconds(999)).empty());
  EXPECT_EQ(details.NewlySlow(kNow + milliseconds(1'000)).size(), 1u);
}

// A world that is as uneven as can be fills no history.
TEST(NewlySlow, IsReportedAFewTimesInAGeneration) {
  WorldDetails details;
  const NodeKey one{"n0", {7}};
  std::size_t told = 0;
  for (int look = 0; look < 100; ++look) {
    std::vector<int> works(200, 40);
    works[static_cast<std::size_t>(look)] = 90;
    details.Take(one, {1}, 0, Node(works));
    told += details.NewlySlow(kNow + milliseconds(2'000) * look).size();
  }
  EXPECT_EQ(told, kMostStragglers);
}

}  // namespace
}  // namespace ddprun
