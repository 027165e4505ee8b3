#include "launcher/verbs/screen.h"

#include <gtest/gtest.h>

#include "launcher/verbs/status.h"

namespace ddprun {
namespace {

TEST(Screen, WhatDoesNotFitIsCut) {
  EXPECT_EQ(Fitted("one\ntwo\nthree\n", {2, 80}), "one\ntwo\n");
  EXPECT_EQ(Fitted("0123456789abc\nx", {9, 10}), "0123456...\nx\n");
  EXPECT_EQ(Fitted("", {9, 10}), "");
}

// Of hundreds those come first that somebody looks for.
TEST(Screen, TheOddNodeIsOnTop) {
  RunStatus run;
  run.run_id = "big";
  run.phase = "running";
  for (std::uint32_t i = 0; i < 500; ++i) {
    run.nodes.push_back({"n" + std::to_string(i),
                         "h",
                         {i + 1},
                         "running",
                         Duration{0},
                         1,
                         true,
                         i,
                         1'000,
                         "",
                         i == 321 ? 1u : 0u});
  }
  run.nodes[123].step = 999;
  const std::string text = FormatScreen(run, 0, 24);
  EXPECT_TRUE(text.starts_with("run big: RUNNING")) << text;
  const std::size_t late = text.find("n321");
  const std::size_t behind = text.find("n123");
  EXPECT_LT(late, behind);
  EXPECT_LT(behind, text.find("n0 "));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
  EXPECT_NE(text.find("more"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
