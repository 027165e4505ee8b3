#include "trainer/learning/step_replay.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

// As a GPU's: recording does nothing, each replay does the work.
class GraphOfWork : public StepGraph {
 public:
  explicit GraphOfWork(bool works = true) : works_(works) {}
  Result<void> Record(const std::function<void()>& work) override {
    recordings_.push_back(work);
    return works_ ? Result<void>() : Error{ErrorKind::kSystem, "it cannot be recorded"};
  }
  Result<void> Replay(std::size_t number) override {
    recordings_.at(number)();
    return {};
  }
  std::size_t recordings() const { return recordings_.size(); }

 private:
  const bool works_;
  std::vector<std::function<void()>> recordings_;
};

Batch BatchOf(float number) {
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
  const auto graph = std::make_shared<GraphOfWork>();
  std::vector<float> seen;
  StepReplay replay(graph, {}, [&](const Batch& batch) {
    seen.push_back(batch.inputs[0][1].item<float>());
    EXPECT_TRUE(batch.labels.defined());
    EXPECT_FALSE(batch.targets.defined());
  });
  Warm(replay);
  const std::array<Batch, 2> places = {BatchOf(0), BatchOf(0)};
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
  StepReplay replay(std::make_shared<GraphOfWork>(), {parameter}, [](const Batch&) {});
  Warm(replay);
  const at::Tensor recorded = at::full({1}, 5.0F);
  parameter.mutable_grad() = recorded;
  ASSERT_TRUE(replay.Step(BatchOf(1), 0));
  parameter.mutable_grad() = at::zeros({1});
  ASSERT_TRUE(replay.Step(BatchOf(1), 0));
  EXPECT_TRUE(parameter.grad().is_same(recorded));
}

TEST(StepReplay, SaysWhatCannotBeRecorded) {
  StepReplay replay(std::make_shared<GraphOfWork>(/*works=*/false), {}, [](const Batch&) {});
  Warm(replay);
  EXPECT_FALSE(replay.Step(BatchOf(1), 0));
}

}  // namespace
}  // namespace ddprun
