#include "agent/workers/progress_lines.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

struct Read {
  explicit Read(const std::string& expression = "auto") : lines(*ProgressForms::Make(expression)) {}
  Read& Feed(std::string_view bytes) {
    lines.Feed(bytes, count);
    return *this;
  }
  ProgressLines lines;
  ProgressCount count;
};

struct ProgressLinesTest : testing::Test {
  Read read;
};

constexpr auto kNone = std::optional<std::uint64_t>();

// Written by tqdm 4.70.1 into a pipe.
TEST_F(ProgressLinesTest, TqdmsBar) {
  read.Feed("\r  0%|          | 0/5 [00:00<?, ?it/s]");
  EXPECT_EQ(read.count.counted(), 0u);
  read.Feed("\r 20%|\xe2\x96\x88\xe2\x96\x88        | 1/5 [00:00<00:00,  6.66it/s]");
  EXPECT_EQ(read.count.counted(), 1u);
  read.Feed(
      "\r 80%|\xe2\x96\x88\xe2\x96\x88  | 4/5 [00:00<00:00,  6.65it/s]\r100%|\xe2\x96\x88| 5/");
  EXPECT_EQ(read.count.counted(), 4u);
  read.Feed("5 [00:00<00:00,  6.65it/s]\n");
  EXPECT_EQ(read.count.counted(), 5u);
  EXPECT_EQ(read.count.absolute(), kNone);
}

TEST_F(ProgressLinesTest, TqdmWithoutATotal) {
  read.Feed("\r0it [00:00, ?it/s]\r1it [00:00,  6.66it/s]\r5it [00:00,  6.65it/s]");
  EXPECT_EQ(read.count.counted(), 5u);
}

TEST_F(ProgressLinesTest, ScaledNumbersCountByTheirPercentage) {
  read.Feed("model.safetensors:  37%|###7      | 1.20G/3.25G [00:09<00:15, 132MB/s]");
  EXPECT_EQ(read.count.counted(), 37u);
}

TEST_F(ProgressLinesTest, LightningsEpochsContinueToCount) {
  read.Feed("\rEpoch 0:  50%|#####     | 5/10 [00:00<00:00, 68.3it/s, v_num=0]");
  read.Feed("\rEpoch 0: 100%|##########| 10/10 [00:00<00:00, 68.3it/s, v_num=0]");
  read.Feed("\rEpoch 1:  20%|##        | 2/10 [00:00<00:00, 68.3it/s, v_num=0]");
  EXPECT_EQ(read.count.counted(), 12u);
  read.Feed("\rEpoch 2: |          | 3/? [00:00<00:00, 68.3it/s]");
  EXPECT_EQ(read.count.counted(), 15u);
  EXPECT_EQ(read.count.absolute(), kNone);
}

TEST_F(ProgressLinesTest, TorchtitansStepIsTheRuns) {
  read.Feed(
      "[titan] 2025-01-07 00:53:20,012 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.39"
      "  \x1b[33mmemory: 42.1GiB(53.2%)\x1b[39m\n");
  EXPECT_EQ(read.count.absolute(), 10u);
  EXPECT_EQ(read.count.counted(), 10u);
  read.Feed("[titan] - root - INFO - step: 20  loss:  6.9\n");
  EXPECT_EQ(read.count.absolute(), 20u);
  EXPECT_EQ(read.count.counted(), 20u);
}

TEST_F(ProgressLinesTest, UsualLines) {
  for (const auto& [line, counted, absolute] :
       {std::tuple("step 10", 10u, true), std::tuple("step=10 loss=2", 10u, true),
        std::tuple("Step: 10/100", 10u, false),
        std::tuple("iter 10: loss 2.1, time 3ms", 10u, false),
        std::tuple("iteration 10/ 500 | consumed samples: 80", 10u, false),
        std::tuple("{'loss': 2.1, 'step': 10}", 10u, true),
        std::tuple("step 10, loss 2", 10u, true), std::tuple("global_step: 10.", 10u, true),
        std::tuple("Epoch 3 step 10", 10u, false), std::tuple("eval step 10", 10u, false),
        std::tuple("step 41ms", 0u, false), std::tuple("step 1,200", 0u, false),
        std::tuple("step=0.5", 0u, false), std::tuple("footstep 10", 0u, false),
        std::tuple("[Errno 10] no such step", 0u, false),
        std::tuple("step 99999999999999999999", 0u, false)}) {
    Read read;
    read.Feed(std::string(line) + "\n");
    EXPECT_EQ(read.count.counted(), counted) << line;
    EXPECT_EQ(read.count.absolute().has_value(), absolute) << line;
  }
}

// "step 9" of "step 99" would be a step back.
TEST_F(ProgressLinesTest, ALineCountsOnceItHasEnded) {
  read.Feed("step 98\nstep 9");
  EXPECT_EQ(read.count.absolute(), 98u);
  read.Feed("9\n");
  EXPECT_EQ(read.count.absolute(), 99u);
}

TEST_F(ProgressLinesTest, AStepThatFallsWasNotTheRuns) {
  read.Feed("step 10\nstep 20\nstep 5\n");
  EXPECT_EQ(read.count.counted(), 25u);
  EXPECT_EQ(read.count.absolute(), kNone);
  read.Feed("step 30\n");
  EXPECT_EQ(read.count.absolute(), kNone);
}

// Two hung bars that are drawn again and again do not move.
TEST_F(ProgressLinesTest, BarsOfOneProgramAreDistinguished) {
  for (int i = 0; i < 100; ++i) {
    read.Feed("\router:  50%|##| 1/2 [00:00<00:00]\r\n\rinner:  50%|##| 5/10 [00:00<00:00]\x1b[A");
  }
  EXPECT_EQ(read.count.counted(), 6u);
}

TEST_F(ProgressLinesTest, TracksAreBounded) {
  for (int i = 0; i < 100'000; ++i) {
    read.Feed("bar" + std::to_string(i) + ":  50%|##| 1/2 [00:00<00:00]\r");
  }
  EXPECT_EQ(read.count.counted(), 100'000u);
}

TEST_F(ProgressLinesTest, AnExpressionOfTheUsers) {
  Read read(R"(batch[ =:]+(\d+))");
  read.Feed("\x1b[1mbatch\x1b[0m = 17 of 20\nstep 5\nbatch 18446744073709551616\n");
  EXPECT_EQ(read.count.counted(), 17u);
  EXPECT_EQ(read.count.absolute(), 17u);
  EXPECT_EQ(Read("at (.*)").Feed("at noon\nat 3\n").count.counted(), 3u);
}

TEST_F(ProgressLinesTest, ATextThatCannotBeAnExpressionSaysWhy) {
  EXPECT_EQ(ProgressForms::Make("step (\\d+").error().message, "missing ): step (\\d+");
  EXPECT_EQ(ProgressForms::Make("step").error().message,
            "the expression needs a group in parentheses for the step");
  EXPECT_FALSE(ProgressForms::Make("(" + std::string(512, 'a') + ")"));
  EXPECT_FALSE(ProgressForms::Make("((a{1000}){1000})"));
}

TEST_F(ProgressLinesTest, ALineWithoutEndIsReadInItsFirstKilobyte) {
  read.Feed("step 3 ");
  for (int i = 0; i < 160; ++i) {
    read.Feed(std::string(64 * 1024, 'x'));
  }
  read.Feed("step 9\n");
  EXPECT_EQ(read.count.counted(), 3u);
  read.Feed(std::string(2000, ' ') + "step 9\nstep 4\n");
  EXPECT_EQ(read.count.counted(), 4u);
}

TEST_F(ProgressLinesTest, HostileBytes) {
  read.Feed(std::string(3000, '\0') + "\n" + std::string("\0step 3\n", 8));
  EXPECT_EQ(read.count.counted(), 3u);
  read.Feed("\x1b[" + std::string(100'000, '1') + "\nstep 4\n");
  read.Feed("\x1b]0;" + std::string(100'000, 't') + "\nstep 5\n\xff\xfe step 6\n");
  EXPECT_EQ(read.count.counted(), 6u);
  std::string bytes;
  for (int i = 1; i <= 100'000; ++i) {
    bytes += "step " + std::to_string(i) + "\n";
  }
  EXPECT_EQ(Read().Feed(bytes).count.counted(), 100'000u);
  Read backtracks("(a*)*b");
  for (int i = 0; i < 1000; ++i) {
    backtracks.Feed(std::string(1024, 'a') + "\n");
  }
  EXPECT_EQ(backtracks.count.counted(), 0u);
}

}  // namespace
}  // namespace ddprun
