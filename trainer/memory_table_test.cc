#include "trainer/memory_table.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

MemorySnapshot State(std::uint64_t generation, std::uint64_t step, std::uint64_t content) {
  MemorySnapshot found;
  found.content = content;
  found.snapshot.state.term = Term{1};
  found.snapshot.state.generation = Generation{generation};
  found.snapshot.state.world_id = WorldId{0xfedcba9876543210 + generation};
  found.snapshot.state.step = step;
  return found;
}

// As the group's sum makes it.
std::vector<HeldState> Together(const std::vector<std::vector<MemorySnapshot>>& ranks) {
  const auto count = static_cast<std::uint32_t>(ranks.size());
  MemoryTable all(0, count, ranks[0]);
  for (std::uint32_t rank = 1; rank < count; ++rank) {
    MemoryTable one(rank, count, ranks[rank]);
    for (std::size_t i = 0; i < all.numbers().size(); ++i) {
      all.numbers()[i] += one.numbers()[i];
    }
  }
  return all.States();
}

constexpr std::uint64_t kContent = 0xf000000000000001;

TEST(MemoryTable, TheSameStateOfAllRanksIsOne) {
  const auto states = Together(
      {{State(2, 100, kContent), State(2, 90, 7)}, {State(2, 90, 7), State(2, 100, kContent)}});
  ASSERT_EQ(states.size(), 2U);
  EXPECT_EQ(states[0].key, KeyOf(State(2, 100, kContent)));
  EXPECT_EQ(states[0].holder, 0U);
  EXPECT_EQ(states[0].ranks, 2U);
  EXPECT_EQ(states[1].key.step, 90U);
}

TEST(MemoryTable, TheNewestIsNotTheLargestStep) {
  const auto states = Together({{State(2, 900, 1)}, {State(3, 150, 2), State(3, 200, 3)}});
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].key, KeyOf(State(3, 200, 3)));
  EXPECT_EQ(states[0].holder, 1U);
  EXPECT_EQ(states[0].ranks, 1U);
  EXPECT_EQ(states[2].key.step, 900U);
}

TEST(MemoryTable, TheRankThatKnowsOfMostStartsIsBelieved) {
  MemorySnapshot begun = State(2, 100, kContent);
  begun.starts = 2;
  EXPECT_EQ(Together({{State(2, 100, kContent)}, {begun}})[0].starts, 2U);
}

// Its node was lost, or it belonged to another world: it has the state sent.
TEST(MemoryTable, ARankWithoutItIsNotCounted) {
  const auto states = Together({{}, {State(2, 100, kContent)}, {State(2, 100, kContent)}});
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].holder, 1U);
  EXPECT_EQ(states[0].ranks, 2U);
  EXPECT_TRUE(Together({{}, {}}).empty());
}

// Else one that lacks it would not be sent it.
TEST(MemoryTable, ARankThatHasItTwiceIsOneRank) {
  const auto states =
      Together({{State(2, 100, kContent), State(2, 100, kContent)}, {State(1, 90, 7)}});
  EXPECT_EQ(states[0].ranks, 1U);
}

TEST(MemoryTable, AnotherWorldOrContentIsAnotherState) {
  MemorySnapshot other = State(2, 100, kContent);
  other.snapshot.state.world_id = WorldId{1};
  const auto states = Together({{State(2, 100, kContent + 1)}, {State(2, 100, kContent)}, {other}});
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].holder, 0U);  // Of equal age the lowest rank's comes first.
}

}  // namespace
}  // namespace ddprun
