#include "rendezvous/listener/few_lines.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

Time After(Duration since) {
  return Time{std::chrono::seconds(1'000) + since};
}

TEST(FewLines, FiveOfAReasonAndThenTheirNumber) {
  FewLines lines;
  int said = 0;
  for (int i = 0; i < 250; ++i) {
    said += lines.Admits("a call was refused", After(i < 200 ? 0s : 9s)) ? 1 : 0;
  }
  EXPECT_EQ(said, 5);
  EXPECT_EQ(lines.NextRest(), After(10s));
  EXPECT_TRUE(lines.Rest(After(9s)).empty());
  EXPECT_EQ(lines.Rest(After(10s)),
            std::vector<std::string>{"a call was refused (245 times more)"});
  EXPECT_EQ(lines.NextRest(), std::nullopt);
  EXPECT_TRUE(lines.Admits("a call was refused", After(10s)));
}

TEST(FewLines, WhatWasSaidInFullIsNotSummedUp) {
  FewLines lines;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(lines.Admits("a call was refused", After(0s)));
  }
  EXPECT_TRUE(lines.Rest(After(10s)).empty());
}

TEST(FewLines, ReasonsAreCountedApart) {
  FewLines lines;
  for (int i = 0; i < 10; ++i) {
    lines.Admits("no token", After(0s));
  }
  EXPECT_TRUE(lines.Admits("a wrong token", After(1s)));
  EXPECT_EQ(lines.Rest(After(10s)), std::vector<std::string>{"no token (5 times more)"});
  EXPECT_EQ(lines.NextRest(), After(11s));
}

TEST(FewLines, EndlessReasonsAreOne) {
  FewLines lines;
  int said = 0;
  for (int i = 0; i < 10'000; ++i) {
    said += lines.Admits("key of " + std::to_string(i) + " bytes", After(0s)) ? 1 : 0;
  }
  EXPECT_EQ(said, static_cast<int>(kMostReasons + kLinesOfAReason));
}

}  // namespace
}  // namespace ddprun
