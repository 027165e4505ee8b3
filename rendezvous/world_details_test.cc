#include "rendezvous/world_details.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const NodeKey kNode{"n0", {7}};

RankDetails At(std::uint64_t step, double loss) {
  return {.training = TrainingPoint{step, loss, {}, {}}};
}

std::vector<std::uint64_t> StepsOf(const WorldDetails& details) {
  std::vector<std::uint64_t> steps;
  for (const TrainingPoint& point : details.curve()) {
    steps.push_back(point.step);
  }
  return steps;
}

struct WorldDetailsTest : testing::Test {
  WorldDetails details;
};

TEST_F(WorldDetailsTest, ShowsNodesOfTheNewestWorldAlone) {
  details.Take(kNode, {1}, 0, {.ranks = {{RankState::kRunning, 5, {}, {}, 0}}});
  RunStatus status;
  status.nodes = {{.node = "n0", .incarnation = {7}}, {.node = "n0", .incarnation = {8}}};
  details.AddTo(status);
  EXPECT_EQ(status.nodes[0].rank_details.ranks.size(), 1u);
  EXPECT_EQ(status.nodes[1].rank_details.ranks.size(), 0u);
  details.Take({"n1", {9}}, {2}, 0, {});
  RunStatus later;
  later.nodes = {{.node = "n0", .incarnation = {7}}};
  details.AddTo(later);
  EXPECT_EQ(later.nodes[0].rank_details, RankDetails{});
}

// A world that starts again has not reported it yet.
TEST_F(WorldDetailsTest, KnowsHowManyStepsThereAreUntilANewReport) {
  const auto shown = [](const WorldDetails& details) {
    RunStatus status;
    details.AddTo(status);
    return status.steps;
  };
  WorldDetails details;
  EXPECT_EQ(shown(details), 0u);
  details.Take(kNode, {1}, 0, {.steps = 2'000});
  details.Take({"n1", {9}}, {1}, 0, {});
  details.Take(kNode, {2}, 0, {});
  EXPECT_EQ(shown(details), 2'000u);
  details.Take(kNode, {2}, 0, {.steps = 1'500});
  EXPECT_EQ(shown(details), 1'500u);
}

TEST_F(WorldDetailsTest, ShowsSoManyRanksAndNoMore) {
  RunStatus status;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const NodeKey key{"n", {i + 1}};
    details.Take(key, {1}, 0, {.ranks = std::vector<RankDetail>(4'096)});
    status.nodes.push_back({.node = key.node, .incarnation = key.incarnation});
  }
  details.AddTo(status);
  EXPECT_EQ(status.nodes[15].rank_details.ranks.size(), 4'096u);
  EXPECT_EQ(status.nodes[16].rank_details.ranks.size(), 0u);
}

TEST_F(WorldDetailsTest, TheCurveGoesBackWithTheTraining) {
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    details.Take(kNode, {1}, 0, At(step, 1));
  }
  details.Take(kNode, {2}, 0, At(25, 2));
  EXPECT_EQ(StepsOf(details), (std::vector<std::uint64_t>{10, 20, 25}));
  details.Take(kNode, {2}, 0, At(25, 3));
  EXPECT_EQ(details.curve().back().loss, 3);
  EXPECT_EQ(details.curve().size(), 3u);
}

TEST_F(WorldDetailsTest, ALongCurveKeepsItsShape) {
  for (std::uint64_t step = 1; step <= 100'000; ++step) {
    details.Take(kNode, {1}, 0, At(step, 1));
    ASSERT_LE(details.curve().size(), kMostTrainingPoints);
  }
  const std::vector<std::uint64_t> steps = StepsOf(details);
  EXPECT_EQ(steps.front(), 1u);
  EXPECT_EQ(steps.back(), 100'000u);
  EXPECT_GE(steps.size(), kMostTrainingPoints / 3);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_LE(steps[i] - steps[i - 1], 1'000u);
  }
}

// A node that makes steps up spoils the curve, and nothing else.
TEST_F(WorldDetailsTest, AnyStepIsTaken) {
  details.Take(kNode, {1}, 0, At(UINT64_MAX, 1));
  details.Take(kNode, {1}, 0, At(0, 1));
  details.Take(kNode, {1}, 0, At(UINT64_MAX, 1));
  for (std::uint64_t step = 0; step < 3'000; ++step) {
    details.Take(kNode, {1}, 0, At(step * (UINT64_MAX / 3'000), 1));
    ASSERT_LE(details.curve().size(), kMostTrainingPoints);
  }
}

}  // namespace
}  // namespace ddprun
