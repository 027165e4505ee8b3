#include "trainer/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ddprun {
namespace {

TEST(ProgressLine, SaysWhereWeAreAndHowLongItTakes) {
  ProgressPoint point{.epoch = 2,
                      .epochs = 5,
                      .step = 1200,
                      .total_steps = 4690,
                      .loss = 0.41234,
                      .accuracy = 0.8812,
                      .lr = 1e-3,
                      .samples_per_second = 5120,
                      .step_seconds = 192.0 / 3490};
  EXPECT_EQ(ProgressLine(point),
            "epoch 3/5 step 1200/4690 loss 0.4123 acc 88.1% lr 1.0e-03 5.1k samples/s eta 3:12");
  point.last_checkpoint = 1000;
  point.samples_per_second = 512000;
  point.ranks = 4;
  point.gradient_norm = 1.93456;
  point.step_seconds = 3601.0 / 3490;
  EXPECT_EQ(ProgressLine(point),
            "epoch 3/5 step 1200/4690 loss 0.4123 acc 88.1% norm 1.93 lr 1.0e-03 512k samples/s "
            "(128k/rank) eta 1:00:01 ckpt 1000");
}

TEST(ProgressLine, LeavesOutAnAccuracyAndARateThatThereAreNot) {
  ProgressPoint point{.epochs = 1, .loss = 0.5, .accuracy = std::nan("")};
  EXPECT_NE(ProgressLine(point).find("loss 0.5000 lr 0.0e+00 0 samples/s"), std::string::npos)
      << ProgressLine(point);
  point.lr = std::nan("");
  EXPECT_NE(ProgressLine(point).find("loss 0.5000 0 samples/s"), std::string::npos)
      << ProgressLine(point);
  EXPECT_EQ(MetricsLine(point, Generation{1}).find("\"lr\""), std::string::npos);
}

TEST(ProgressLine, KnowsNoEtaWithoutASpeed) {
  const ProgressPoint point{.epochs = 1, .total_steps = 100};
  EXPECT_NE(ProgressLine(point).find("0 samples/s eta ?"), std::string::npos);
}

TEST(Scalars, AreWhatIsKnown) {
  ProgressPoint point{.epoch = 2,
                      .step = 1200,
                      .loss = 0.5,
                      .accuracy = std::nan(""),
                      .lr = 1e-3,
                      .samples_per_second = 5120,
                      .step_seconds = 0.025,
                      .ranks = 2};
  const auto named = [&] {
    std::map<std::string, double> values;
    for (const Scalar& scalar : ScalarsOf(point, Generation{3}, 1000)) {
      values[scalar.tag] = scalar.value;
    }
    return values;
  };
  std::map<std::string, double> expected = {
      {"train/loss", 0.5},     {"train/lr", 1e-3}, {"train/samples_per_s", 5120},
      {"train/step_s", 0.025}, {"run/epoch", 2},   {"run/gen", 3},
      {"run/world_size", 2},   {"run/mem", 1000},
  };
  EXPECT_EQ(named(), expected);
  point.accuracy = 0.75;
  point.gradient_norm = 1.5;
  point.gpu_bytes = 7;
  point.gpu_peak = 9;
  expected.insert({{"train/accuracy", 0.75},
                   {"train/grad_norm", 1.5},
                   {"run/gpu_mem", 7},
                   {"run/gpu_mem_peak", 9}});
  EXPECT_EQ(named(), expected);
}

}  // namespace
}  // namespace ddprun
