#include "trainer/learning/step_replay.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trainer/learning/graph_testing.h"

namespace ddprun {
namespace {

TaskBatch BatchOf(float number) {
  return {.inputs = {at::full({2}, number)}, .targets = {}, .labels = at::zeros({2}, at::kLong)};
}

void Warm(StepReplay& replay) {
  for (std::size_t step = 0; step < StepReplay::kWarmSteps; ++step) {
    EXPECT_FALSE(replay.IsWarm());
  }
  EXPECT_TRUE(replay.IsWarm());
  EXPECT_FALSE(replay.replays());
}

TEST(StepReplay, RecordsOneStepForEachPlaceAndReplaysIt) {
  const auto graph = std::make_shared<FakeGraph>();
  std::vector<float> seen;
  StepReplay replay(graph, {}, [&](const TaskBatch& batch) {
    seen.push_back(batch.inputs[0][1].item<float>());
    EXPECT_TRUE(batch.labels.defined());
    EXPECT_FALSE(batch.targets.defined());
  });
  Warm(replay);
  const std::array<TaskBatch, 2> places = {BatchOf(0), BatchOf(0)};
  std::vector<float> expected;
  for (std::size_t step = 0; step < 5; ++step) {
    expected.push_back(static_cast<float>(step));
    places[step % 2].inputs[0].fill_(expected.back());
    ASSERT_TRUE(replay.Step(places[step % 2], step % 2));
    EXPECT_TRUE(replay.replays());
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(graph->recordings(), 2U);
}

// A step beside the graph leaves gradients of its own.
TEST(StepReplay, GivesParametersTheGradientsOfTheGraph) {
  at::Tensor parameter = at::ones({1}).set_requires_grad(true);
  StepReplay replay(std::make_shared<FakeGraph>(), {parameter}, [](const TaskBatch&) {});
  Warm(replay);
  const at::Tensor recorded = at::full({1}, 5.0F);
  parameter.mutable_grad() = recorded;
  ASSERT_TRUE(replay.Step(BatchOf(1), 0));
  parameter.mutable_grad() = at::zeros({1});
  ASSERT_TRUE(replay.Step(BatchOf(1), 0));
  EXPECT_TRUE(parameter.grad().is_same(recorded));
}

TEST(StepReplay, SaysWhatCannotBeRecorded) {
  StepReplay replay(std::make_shared<FakeGraph>(/*works=*/false), {}, [](const TaskBatch&) {});
  Warm(replay);
  EXPECT_FALSE(replay.Step(BatchOf(1), 0));
}

}  // namespace
}  // namespace ddprun
