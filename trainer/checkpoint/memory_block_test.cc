#include "trainer/checkpoint/memory_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/checkpoint/checkpoint_fixtures.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

BlockFacts Facts() {
  return {.directory = "/ckpt",
          .base = CheckpointRef{"step-00000100-0000000000abc001", 0xfedcba9876543210},
          .path = {{Term{1}, Generation{2}, WorldId{0xfedcba9876543210}, 130}},
          .handed_over = 120,
          .unsaved_ms = 5,
          .best = 110};
}

// A block as a process leaves it.
struct Block {
  Block() : words(BlockBytes(SnapshotAt(7), Facts()) / 8 + 1) {}
  std::span<char> bytes() { return {reinterpret_cast<char*>(words.data()), 8 * words.size()}; }
  std::string WhyNot() {
    const Result<MemorySnapshot> read = ReadBlock(bytes());
    return read ? "" : read.error().message;
  }
  std::vector<std::uint64_t> words;
};

TEST(MemoryBlock, WhatIsWrittenIsRead) {
  Block block;
  const Snapshot written = SnapshotAt(7);
  EXPECT_EQ(SequenceOf(block.bytes()), 0U);
  ASSERT_TRUE(WriteBlock(block.bytes(), 3, written, Facts()));
  EXPECT_EQ(SequenceOf(block.bytes()), 3U);
  const Result<MemorySnapshot> read = ReadBlock(block.bytes());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->sequence, 3U);
  EXPECT_EQ(read->facts, Facts());
  EXPECT_EQ(read->starts, 0U);
  CountStart(block.bytes());
  CountStart(block.bytes());
  EXPECT_EQ(ReadBlock(block.bytes())->starts, 2U);
  EXPECT_EQ(read->snapshot.model, written.model);
  EXPECT_EQ(read->snapshot.optimizer, written.optimizer);
  EXPECT_EQ(read->snapshot.state.step, 7U);
  EXPECT_EQ(read->snapshot.state.metrics, written.state.metrics);
  ASSERT_TRUE(WriteBlock(block.bytes(), 4, SnapshotAt(8), {}));
  EXPECT_EQ(ReadBlock(block.bytes())->facts, BlockFacts{});
  EXPECT_EQ(ReadBlock(block.bytes())->starts, 0U);
}

TEST(MemoryBlock, WhatDoesNotFitLeavesItAsItWas) {
  Block block;
  ASSERT_TRUE(WriteBlock(block.bytes(), 1, SnapshotAt(7), Facts()));
  Snapshot large = SnapshotAt(8);
  large.model[0] = Floats("fc.weight", std::vector<float>(100'000));
  EXPECT_FALSE(WriteBlock(block.bytes(), 2, large, Facts()));
  EXPECT_EQ(ReadBlock(block.bytes())->snapshot.state.step, 7U);
  EXPECT_FALSE(WriteBlock(block.bytes().first(8), 2, SnapshotAt(7), Facts()));
  EXPECT_FALSE(WriteBlock({}, 2, SnapshotAt(7), Facts()));
}

// Ranks with the same content have the same digest, whatever else they say of it.
TEST(MemoryBlock, TheContentHasADigestOfItsOwn) {
  Block one;
  Block other;
  ASSERT_TRUE(WriteBlock(one.bytes(), 1, SnapshotAt(7), Facts()));
  ASSERT_TRUE(WriteBlock(other.bytes(), 8, SnapshotAt(7), {}));
  EXPECT_EQ(ReadBlock(one.bytes())->content, ReadBlock(other.bytes())->content);
  ASSERT_TRUE(WriteBlock(other.bytes(), 9, SnapshotAt(8), Facts()));
  EXPECT_NE(ReadBlock(one.bytes())->content, ReadBlock(other.bytes())->content);
}

TEST(MemoryBlock, APathThatIsTooLongIsRefused) {
  BlockFacts facts = Facts();
  facts.path.assign(kMostPath + 1, facts.path.front());
  std::vector<std::uint64_t> words(BlockBytes(SnapshotAt(7), facts) / 8 + 1);
  const std::span<char> bytes{reinterpret_cast<char*>(words.data()), 8 * words.size()};
  ASSERT_TRUE(WriteBlock(bytes, 1, SnapshotAt(7), facts));
  EXPECT_FALSE(ReadBlock(bytes));
  facts.path.pop_back();
  ASSERT_TRUE(WriteBlock(bytes, 2, SnapshotAt(7), facts));
  EXPECT_TRUE(ReadBlock(bytes));
}

// Its writer may die between any two bytes: then what is there is what the one before left, up to
// some byte, with the sequence before already new.
TEST(MemoryBlock, ATornOneIsSeenWhereverItTears) {
  Block old;
  ASSERT_TRUE(WriteBlock(old.bytes(), 1, SnapshotAt(7), Facts()));
  Block whole;
  ASSERT_TRUE(WriteBlock(whole.bytes(), 2, SnapshotAt(8), Facts()));
  constexpr std::size_t kAfter = 56;
  for (std::size_t written = 9; written < 4096; ++written) {
    Block torn = old;
    std::copy_n(whole.bytes().begin(), written, torn.bytes().begin());
    std::copy_n(old.bytes().begin() + kAfter, 8, torn.bytes().begin() + kAfter);
    EXPECT_EQ(SequenceOf(torn.bytes()), 0U);
    EXPECT_THAT(torn.WhyNot(), HasSubstr("was being written")) << written;
  }
}

TEST(MemoryBlock, AChangedBitIsSeen) {
  Block block;
  ASSERT_TRUE(WriteBlock(block.bytes(), 1, SnapshotAt(7), Facts()));
  const Snapshot written = SnapshotAt(7);
  const std::size_t used = BlockBytes(written, Facts()) - (64 << 10);
  for (std::size_t i = 0; i < used; ++i) {
    block.bytes()[i] ^= 4;
    const Result<MemorySnapshot> read = ReadBlock(block.bytes());
    EXPECT_EQ(static_cast<bool>(read), i / 8 == 8) << i << ": the count of starts is not in it";
    block.bytes()[i] ^= 4;
  }
  EXPECT_EQ(block.WhyNot(), "");
}

TEST(MemoryBlock, AnythingElseIsRefused) {
  Block block;
  EXPECT_THAT(block.WhyNot(), HasSubstr("no snapshot"));
  EXPECT_FALSE(ReadBlock({}));
  EXPECT_FALSE(ReadBlock(block.bytes().first(3)));
  ASSERT_TRUE(WriteBlock(block.bytes(), 1, SnapshotAt(7), Facts()));
  for (const std::size_t word : {2, 3, 4}) {  // Sizes.
    Block lie = block;
    lie.words[word] = ~0ULL - 7;
    EXPECT_THAT(lie.WhyNot(), HasSubstr("sizes"));
  }
  EXPECT_FALSE(ReadBlock(block.bytes().first(200)));
}

}  // namespace
}  // namespace ddprun
