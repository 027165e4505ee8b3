#include "launcher/check/pairings.h"

#include <gtest/gtest.h>

#include <set>

namespace ddprun {
namespace {

TEST(Rounds, EverybodyMeetsEverybodyOnce) {
  for (const std::size_t nodes : {0u, 1u, 2u, 3u, 4u, 7u, 8u}) {
    std::set<NodePair> met;
    for (const auto& round : Rounds(nodes, 100)) {
      std::set<std::size_t> busy;
      for (const NodePair& pair : round) {
        EXPECT_LT(pair.first, pair.second);
        EXPECT_TRUE(met.insert(pair).second);
        EXPECT_TRUE(busy.insert(pair.first).second && busy.insert(pair.second).second);
      }
    }
    EXPECT_EQ(met.size(), nodes * (nodes > 0 ? nodes - 1 : 0) / 2);
  }
}

TEST(Rounds, OfManyEachMeetsSome) {
  std::vector<int> met(101);
  for (const auto& round : Rounds(101, 8)) {
    for (const auto& [a, b] : round) {
      ++met[a];
      ++met[b];
    }
  }
  EXPECT_GE(*std::min_element(met.begin(), met.end()), 7);
  EXPECT_LE(*std::max_element(met.begin(), met.end()), 8);
}

struct Network {
  std::vector<PairResult> results;
  Network(std::size_t nodes, double rate) {
    for (const auto& round : Rounds(nodes, 100)) {
      for (const NodePair& pair : round) {
        results.push_back({pair, rate, rate, 0.0001, ""});
      }
    }
  }
  PairResult& Of(std::size_t a, std::size_t b) {
    return *std::find_if(results.begin(), results.end(),
                         [&](const PairResult& r) { return r.nodes == NodePair(a, b); });
  }
};

TEST(FindSlow, WhereAllAreAlikeNobodyIs) {
  EXPECT_TRUE(FindSlow(4, Network(4, 1e9).results).empty());
  EXPECT_TRUE(FindSlow(1, {}).empty());
}

TEST(FindSlow, AHostThatIsSlowWithEverybodyIsNamedAndNotItsLinks) {
  for (const std::size_t nodes : {3u, 4u, 5u}) {
    Network network(nodes, 1e9);
    for (PairResult& result : network.results) {
      if (result.nodes.second == nodes - 1) {
        result.back = 1e8;  // In one direction.
      }
    }
    const std::vector<SlowPart> slow = FindSlow(nodes, network.results);
    ASSERT_EQ(slow.size(), 1u);
    EXPECT_EQ(slow[0].kind, SlowKind::kHost);
    EXPECT_EQ(slow[0].nodes.first, nodes - 1);
    EXPECT_EQ(slow[0].value, 1e8);
    EXPECT_EQ(slow[0].usual, 1e9);
    EXPECT_EQ(Suspects(slow, network.results).size(), 1u);
  }
}

TEST(FindSlow, ALinkBetweenTwoGoodHostsIsNamed) {
  Network network(4, 1e9);
  network.Of(1, 3).there = 1e8;
  const std::vector<SlowPart> slow = FindSlow(4, network.results);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].kind, SlowKind::kLink);
  EXPECT_EQ(slow[0].nodes, NodePair(1, 3));
  EXPECT_EQ(Suspects(slow, network.results), std::vector<NodePair>{NodePair(1, 3)});
}

TEST(FindSlow, TwoThatDoNotMeetAreNamed) {
  Network network(4, 1e9);
  network.Of(0, 2).error = "no route to host";
  std::vector<SlowPart> slow = FindSlow(4, network.results);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].kind, SlowKind::kNoLink);
  Network two(2, 1e9);
  two.results[0].error = "no route to host";
  slow = FindSlow(2, two.results);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].kind, SlowKind::kNoLink);
}

TEST(FindSlow, AHostThatNobodyReachesIsTheOne) {
  Network network(4, 1e9);
  for (PairResult& result : network.results) {
    result.error = result.nodes.second == 3 ? "no route to host" : "";
  }
  const std::vector<SlowPart> slow = FindSlow(4, network.results);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].kind, SlowKind::kHost);
  EXPECT_EQ(slow[0].value, 0);
}

TEST(FindSlow, AHostFarAwayIsNamed) {
  Network network(4, 1e9);
  for (PairResult& result : network.results) {
    result.latency = result.nodes.second == 3 ? 0.02 : 0.0001;
  }
  const std::vector<SlowPart> slow = FindSlow(4, network.results);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].kind, SlowKind::kFarHost);
  EXPECT_EQ(slow[0].nodes.first, 3u);
}

// Half of the others' is the limit, and two alone have no others.
TEST(FindSlow, WhatIsNotClearIsNotSaid) {
  Network network(3, 1e9);
  network.Of(0, 2).there = network.Of(1, 2).there = 0.6e9;
  EXPECT_TRUE(FindSlow(3, network.results).empty());
  Network two(2, 1e3);
  EXPECT_TRUE(FindSlow(2, two.results).empty());
}

}  // namespace
}  // namespace ddprun
