#include "rendezvous/listener/strangers.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Time At(Duration time) {
  return Time(time);
}

TEST(Strangers, WhoFloodsPushesOutItsOwn) {
  Strangers strangers;
  strangers.Add(0, "node", At(0s));
  for (const Strangers::Number number : {1, 2, 3}) {
    strangers.Add(number, "flood", At(1s));
  }
  EXPECT_EQ(strangers.WhoMakesRoom("other", At(1s)), 1u);
  EXPECT_EQ(strangers.WhoMakesRoom("node", At(1s)), 1u);
  EXPECT_TRUE(strangers.Remove(1));
  EXPECT_FALSE(strangers.Remove(1));
  EXPECT_EQ(strangers.WhoMakesRoom("other", At(1s)), 2u);
  EXPECT_EQ(strangers.size(), 3u);
}

// Else nodes that all come at once, of one machine or of many, would only begin for ever.
TEST(Strangers, EqualsArePushedOutOnlyWhenTheyHaveHadTheirTime) {
  Strangers strangers;
  EXPECT_EQ(strangers.WhoMakesRoom("a", At(0s)), std::nullopt);
  strangers.Add(0, "a", At(0s));
  strangers.Add(1, "a", At(0s));
  EXPECT_EQ(strangers.WhoMakesRoom("a", At(0s)), std::nullopt);
  EXPECT_EQ(strangers.WhoMakesRoom("a", At(0s) + kStrangersTime), 0u);
  strangers.Add(2, "b", At(0s));
  EXPECT_EQ(strangers.WhoMakesRoom("b", At(0s)), std::nullopt);
  EXPECT_EQ(strangers.WhoMakesRoom("c", At(0s)), 0u);
}

TEST(Strangers, AreLookedAtInTurn) {
  Strangers strangers;
  strangers.Add(3, "a", At(0s));
  strangers.Add(5, "b", At(0s));
  EXPECT_EQ(strangers.After(0), 3u);
  EXPECT_EQ(strangers.After(3), 5u);
  EXPECT_EQ(strangers.After(5), 3u);
}

}  // namespace
}  // namespace ddprun
