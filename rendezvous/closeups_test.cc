#include "rendezvous/closeups.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const NodeKey kNode{"n0", {7}};

Closeup At(std::uint64_t step, double loss) {
  return {.training = TrainingPoint{step, loss, {}, {}}};
}

std::vector<std::uint64_t> StepsOf(const Closeups& closeups) {
  std::vector<std::uint64_t> steps;
  for (const TrainingPoint& point : closeups.curve()) {
    steps.push_back(point.step);
  }
  return steps;
}

TEST(Closeups, ShowsNodesOfTheNewestWorldAlone) {
  Closeups closeups;
  closeups.Take(kNode, {1}, 0, {.ranks = {{RankState::kRunning, 5, {}, {}, 0}}});
  RunStatus status;
  status.nodes = {{.node = "n0", .incarnation = {7}}, {.node = "n0", .incarnation = {8}}};
  closeups.AddTo(status);
  EXPECT_EQ(status.nodes[0].closeup.ranks.size(), 1u);
  EXPECT_EQ(status.nodes[1].closeup.ranks.size(), 0u);
  closeups.Take({"n1", {9}}, {2}, 0, {});
  RunStatus later;
  later.nodes = {{.node = "n0", .incarnation = {7}}};
  closeups.AddTo(later);
  EXPECT_EQ(later.nodes[0].closeup, Closeup{});
}

// A world that starts again has not told it yet.
TEST(Closeups, KnowsHowManyStepsThereAreUntilItIsToldAnew) {
  const auto shown = [](const Closeups& closeups) {
    RunStatus status;
    closeups.AddTo(status);
    return status.steps;
  };
  Closeups closeups;
  EXPECT_EQ(shown(closeups), 0u);
  closeups.Take(kNode, {1}, 0, {.steps = 2'000});
  closeups.Take({"n1", {9}}, {1}, 0, {});
  closeups.Take(kNode, {2}, 0, {});
  EXPECT_EQ(shown(closeups), 2'000u);
  closeups.Take(kNode, {2}, 0, {.steps = 1'500});
  EXPECT_EQ(shown(closeups), 1'500u);
}

TEST(Closeups, ShowsSoManyRanksAndNoMore) {
  Closeups closeups;
  RunStatus status;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const NodeKey key{"n", {i + 1}};
    closeups.Take(key, {1}, 0, {.ranks = std::vector<RankCloseup>(4'096)});
    status.nodes.push_back({.node = key.node, .incarnation = key.incarnation});
  }
  closeups.AddTo(status);
  EXPECT_EQ(status.nodes[15].closeup.ranks.size(), 4'096u);
  EXPECT_EQ(status.nodes[16].closeup.ranks.size(), 0u);
}

TEST(Closeups, TheCurveGoesBackWithTheTraining) {
  Closeups closeups;
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    closeups.Take(kNode, {1}, 0, At(step, 1));
  }
  closeups.Take(kNode, {2}, 0, At(25, 2));
  EXPECT_EQ(StepsOf(closeups), (std::vector<std::uint64_t>{10, 20, 25}));
  closeups.Take(kNode, {2}, 0, At(25, 3));
  EXPECT_EQ(closeups.curve().back().loss, 3);
  EXPECT_EQ(closeups.curve().size(), 3u);
}

TEST(Closeups, ALongCurveKeepsItsShape) {
  Closeups closeups;
  for (std::uint64_t step = 1; step <= 100'000; ++step) {
    closeups.Take(kNode, {1}, 0, At(step, 1));
    ASSERT_LE(closeups.curve().size(), kMostTrainingPoints);
  }
  const std::vector<std::uint64_t> steps = StepsOf(closeups);
  EXPECT_EQ(steps.front(), 1u);
  EXPECT_EQ(steps.back(), 100'000u);
  EXPECT_GE(steps.size(), kMostTrainingPoints / 3);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_LE(steps[i] - steps[i - 1], 1'000u);
  }
}

// Whoever makes steps up spoils the curve, and nothing else.
TEST(Closeups, AnyStepIsTaken) {
  Closeups closeups;
  closeups.Take(kNode, {1}, 0, At(UINT64_MAX, 1));
  closeups.Take(kNode, {1}, 0, At(0, 1));
  closeups.Take(kNode, {1}, 0, At(UINT64_MAX, 1));
  for (std::uint64_t step = 0; step < 3'000; ++step) {
    closeups.Take(kNode, {1}, 0, At(step * (UINT64_MAX / 3'000), 1));
    ASSERT_LE(closeups.curve().size(), kMostTrainingPoints);
  }
}

}  // namespace
}  // namespace ddprun
