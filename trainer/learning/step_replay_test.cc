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
    work_ = work;
    return works_ ? Result<void>() : Error{ErrorKind::kSystem, "it cannot be recorded"};
  }
  Result<void> Replay() override {
    work_();
    return {};
  }

 private:
  const bool works_;
  std::function<void()> work_;
};

Batch BatchOf(float number) {
  return {.inputs = {at::full({2}, number)}, .targets = {}, .labels = at::zeros({2}, at::kLong)};
}

TEST(StepReplay, ReplaysWithEachBatchInTheSameMemory) {
  std::vector<float> seen;
  std::vector<const void*> where;
  StepReplay replay(std::make_shared<GraphOfWork>(), {}, [&](const Batch& batch) {
    seen.push_back(batch.inputs[0][1].item<float>());
    where.push_back(batch.inputs[0].const_data_ptr());
    EXPECT_TRUE(batch.labels.defined());
    EXPECT_FALSE(batch.targets.defined());
  });
  std::vector<float> expected;
  for (std::size_t step = 0; step < StepReplay::kWarmSteps + 3; ++step) {
    EXPECT_EQ(replay.replays(), step > StepReplay::kWarmSteps);
    expected.push_back(static_cast<float>(step));
    ASSERT_TRUE(replay.Step(BatchOf(expected.back())));
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(where[StepReplay::kWarmSteps], where.back());
}

// A step beside the graph leaves gradients of its own.
TEST(StepReplay, GivesParametersTheGradientsOfTheGraph) {
  at::Tensor parameter = at::ones({1}).set_requires_grad(true);
  StepReplay replay(std::make_shared<GraphOfWork>(), {parameter}, [](const Batch&) {});
  for (std::size_t step = 0; step < StepReplay::kWarmSteps; ++step) {
    ASSERT_TRUE(replay.Step(BatchOf(1)));
  }
  const at::Tensor recorded = at::full({1}, 5.0F);
  parameter.mutable_grad() = recorded;
  ASSERT_TRUE(replay.Step(BatchOf(1)));
  parameter.mutable_grad() = at::zeros({1});
  ASSERT_TRUE(replay.Step(BatchOf(1)));
  EXPECT_TRUE(parameter.grad().is_same(recorded));
}

TEST(StepReplay, SaysWhatCannotBeRecorded) {
  StepReplay replay(std::make_shared<GraphOfWork>(/*works=*/false), {}, [](const Batch&) {});
  for (std::size_t step = 0; step < StepReplay::kWarmSteps; ++step) {
    ASSERT_TRUE(replay.Step(BatchOf(1)));
  }
  EXPECT_FALSE(replay.Step(BatchOf(1)));
}

}  // namespace
}  // namespace ddprun
