#include "trainer/learning/score_accumulator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

// As of a Transformer that computes with positions first.
TEST(ScoreAccumulator, CountsWhatIsRightHoweverTheOutputLiesInMemory) {
  ScoreAccumulator keeper(at::kCPU);
  const at::Tensor logits = at::tensor({9.0F, 1.0F, 2.0F, 0.0F, 1.0F, 7.0F}).view({2, 3});
  const TaskBatch batch{.inputs = {}, .targets = {}, .labels = at::tensor({0L, 2L})};
  keeper.Add(logits, at::tensor(1.5F), batch, 1);
  keeper.Add(logits.t().contiguous().t(), at::tensor(0.5F), batch, 1);
  keeper.AddSamples(4);
  const Score score = keeper.Take();
  EXPECT_EQ(score.correct, 4U);
  EXPECT_EQ(score.samples, 4U);
  EXPECT_EQ(score.loss_sum, 2);
  EXPECT_EQ(keeper.Take().samples, 0U);
}

TEST(ScoreAccumulator, LossesOfFloatTargetsCountAsTheirMean) {
  ScoreAccumulator keeper(at::kCPU);
  const TaskBatch batch{.inputs = {}, .targets = at::zeros({2, 4}), .labels = {}};
  keeper.Add(at::zeros({2, 4}), at::tensor(8.0F), batch, 4);
  const Score training = keeper.Take();
  EXPECT_EQ(training.loss_sum, 2);
  EXPECT_EQ(training.correct, 0U);
  keeper.Restore(training);  // After an evaluation between two parts.
  EXPECT_EQ(keeper.Take().loss_sum, 2);
}

}  // namespace
}  // namespace ddprun
