#include "launcher/verbs/step_watch.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

RunStatus Running(std::uint64_t lowest, std::uint64_t generation = 1) {
  RunStatus run;
  run.phase = "running";
  run.generation = {generation};
  run.nodes = {{"n0", "h", {1}, "running", 0ms, 1, true, 0, lowest + 5, "", 0},
               {"n1", "h", {2}, "running", 0ms, 1, true, 1, lowest, "", 0},
               {"n2", "h", {3}, "spare", 0ms, 1, false, 0, 0, "", 0}};
  return run;
}

Time At(std::chrono::microseconds since) {
  return Time(since);
}

TEST(StepWatch, SaysHowLongAStepTakesAndHowLongNoneCame) {
  StepWatch watch;
  for (int second = 0; second <= 10; ++second) {
    watch.Look(Running(100 + 2 * second), At(std::chrono::seconds(second)));
  }
  EXPECT_EQ(watch.Headline(At(10s)), "step 120, 500 ms per step");
  EXPECT_FALSE(watch.Late(At(14s)));
  watch.Look(Running(120), At(22s));
  EXPECT_TRUE(watch.Late(At(22s)));
  EXPECT_EQ(watch.Headline(At(262s)), "no step for 4 min 12 s (usual 500 ms)");
  watch.Look(Running(121), At(263s));
  EXPECT_FALSE(watch.Late(At(263s)));
}

// It began to look when the run hung already.
TEST(StepWatch, WhatCameBeforeIsNotClaimed) {
  StepWatch watch;
  watch.Look(Running(100), At(0s));
  EXPECT_EQ(watch.Headline(At(1s)), "");
  EXPECT_EQ(watch.Headline(At(30s)), "no step for 30.0 s, as long as this has looked");
}

// A restart is told by the run's own words, and the next world resumes behind the last one.
TEST(StepWatch, AnotherWorldBeginsAnew) {
  StepWatch watch;
  for (int second = 0; second <= 10; ++second) {
    watch.Look(Running(100 + second), At(std::chrono::seconds(second)));
  }
  RunStatus draining = Running(110);
  draining.phase = "draining";
  watch.Look(draining, At(60s));
  EXPECT_EQ(watch.Headline(At(60s)), "");
  EXPECT_FALSE(watch.Late(At(60s)));
  watch.Look(Running(90, 2), At(61s));
  EXPECT_FALSE(watch.Late(At(62s)));
}

// A program that tells no STEP is not late.
TEST(StepWatch, WhoTellsNoStepIsNotJudged) {
  StepWatch watch;
  RunStatus run = Running(0);
  watch.Look(run, At(0s));
  EXPECT_EQ(watch.Headline(At(900s)), "");
}

}  // namespace
}  // namespace ddprun
