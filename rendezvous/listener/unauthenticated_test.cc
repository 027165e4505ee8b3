#include "rendezvous/listener/unauthenticated.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Time At(Duration time) {
  return Time(time);
}

TEST(UnauthenticatedConnections, AnAddressThatFloodsEvictsItsOwn) {
  UnauthenticatedConnections connections;
  connections.Add(0, "node", At(0s));
  for (const UnauthenticatedConnections::Number number : {1, 2, 3}) {
    connections.Add(number, "flood", At(1s));
  }
  EXPECT_EQ(connections.ToEvict("other", At(1s)), 1u);
  EXPECT_EQ(connections.ToEvict("node", At(1s)), 1u);
  EXPECT_TRUE(connections.Remove(1));
  EXPECT_FALSE(connections.Remove(1));
  EXPECT_EQ(connections.ToEvict("other", At(1s)), 2u);
  EXPECT_EQ(connections.size(), 3u);
}

// Else nodes that all come at once, of one machine or of many, would only begin for ever.
TEST(UnauthenticatedConnections, EqualsAreEvictedOnlyWhenTheyHaveHadTheirTime) {
  UnauthenticatedConnections connections;
  EXPECT_EQ(connections.ToEvict("a", At(0s)), std::nullopt);
  connections.Add(0, "a", At(0s));
  connections.Add(1, "a", At(0s));
  EXPECT_EQ(connections.ToEvict("a", At(0s)), std::nullopt);
  EXPECT_EQ(connections.ToEvict("a", At(0s) + kLeastAgeToEvict), 0u);
  connections.Add(2, "b", At(0s));
  EXPECT_EQ(connections.ToEvict("b", At(0s)), std::nullopt);
  EXPECT_EQ(connections.ToEvict("c", At(0s)), 0u);
}

TEST(UnauthenticatedConnections, TheOldestIsNamedOnceItsTimeIsOver) {
  UnauthenticatedConnections connections;
  EXPECT_EQ(connections.Since(At(9s)), std::nullopt);
  connections.Add(0, "a", At(0s));
  connections.Add(1, "b", At(1s));
  connections.Add(2, "a", At(2s));
  EXPECT_TRUE(connections.Remove(0));
  EXPECT_EQ(connections.Since(At(0s)), std::nullopt);
  EXPECT_EQ(connections.Since(At(2s)), 1u);
  EXPECT_TRUE(connections.Remove(1));
  EXPECT_EQ(connections.Since(At(2s)), 2u);
}

TEST(UnauthenticatedConnections, AreLookedAtOneAfterTheOther) {
  UnauthenticatedConnections connections;
  connections.Add(3, "a", At(0s));
  connections.Add(5, "b", At(0s));
  EXPECT_EQ(connections.After(0), 3u);
  EXPECT_EQ(connections.After(3), 5u);
  EXPECT_EQ(connections.After(5), 3u);
}

}  // namespace
}  // namespace ddprun
