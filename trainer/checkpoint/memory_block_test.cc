#include "trainer/checkpoint/memory_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/checkpoint/checkpoint_fixtures.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

BlockFacts Facts() {
  return {.base = 0xfedcba9876543210, .handed_over = 120, .unsaved_ms = 5, .best = 110};
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
  ASSERT_TRUE(WriteBlock(block.bytes(), written, Facts()));
  const Result<MemorySnapshot> read = ReadBlock(block.bytes());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->facts, Facts());
  CountStart(block.bytes());
  CountStart(block.bytes());
  EXPECT_EQ(ReadBlock(block.bytes())->facts.starts, 2U);
  EXPECT_EQ(read->snapshot.model, written.model);
  EXPECT_EQ(read->snapshot.optimizer, written.optimizer);
  EXPECT_EQ(read->snapshot.state.step, 7U);
  EXPECT_EQ(read->snapshot.state.metrics, written.state.metrics);
  ASSERT_TRUE(WriteBlock(block.bytes(), SnapshotAt(8), {}));
  EXPECT_EQ(ReadBlock(block.bytes())->facts, BlockFacts{});
}

TEST(MemoryBlock, AHeadingTravels) {
  BlockHeading heading{.facts = Facts(), .state = SnapshotAt(7).state};
  heading.facts.starts = 2;
  const Result<BlockHeading> read = BlockHeadingFromText(ToText(heading));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->facts, heading.facts);
  EXPECT_EQ(read->state.step, 7U);
  for (const char* const lie : {"", "[]", "{}", "{\"unsaved_ms\":-1}"}) {
    EXPECT_FALSE(BlockHeadingFromText(lie)) << lie;
  }
}

TEST(MemoryBlock, WhatDoesNotFitLeavesItAsItWas) {
  Block block;
  ASSERT_TRUE(WriteBlock(block.bytes(), SnapshotAt(7), Facts()));
  Snapshot large = SnapshotAt(8);
  large.model[0] = Floats("fc.weight", std::vector<float>(100'000));
  EXPECT_FALSE(WriteBlock(block.bytes(), large, Facts()));
  EXPECT_EQ(ReadBlock(block.bytes())->snapshot.state.step, 7U);
  EXPECT_FALSE(WriteBlock(block.bytes().first(8), SnapshotAt(7), Facts()));
  EXPECT_FALSE(WriteBlock({}, SnapshotAt(7), Facts()));
}

// None is found: the agent keeps a block only once it is whole. But if one were, it would be seen.
TEST(MemoryBlock, ATornOneIsSeenWhereverItTears) {
  Block old;
  ASSERT_TRUE(WriteBlock(old.bytes(), SnapshotAt(7), Facts()));
  Block whole;
  ASSERT_TRUE(WriteBlock(whole.bytes(), SnapshotAt(8), Facts()));
  std::size_t last = 0;  // Byte in which the two differ.
  for (std::size_t i = 0; i < whole.bytes().size(); ++i) {
    last = whole.bytes()[i] != old.bytes()[i] ? i : last;
  }
  constexpr std::size_t kDigest = 32;
  for (std::size_t written = kDigest + 8; written <= last; ++written) {
    Block torn = old;
    std::copy_n(whole.bytes().begin(), written, torn.bytes().begin());
    EXPECT_THAT(torn.WhyNot(), HasSubstr("digest")) << written;
  }
}

TEST(MemoryBlock, AChangedBitIsSeen) {
  Block block;
  ASSERT_TRUE(WriteBlock(block.bytes(), SnapshotAt(7), Facts()));
  const Snapshot written = SnapshotAt(7);
  const std::size_t used = BlockBytes(written, Facts()) - (64 << 10);
  for (std::size_t i = 0; i < used; ++i) {
    block.bytes()[i] ^= 4;
    const Result<MemorySnapshot> read = ReadBlock(block.bytes());
    EXPECT_EQ(static_cast<bool>(read), i / 8 == 5) << i << ": the count of starts is not in it";
    block.bytes()[i] ^= 4;
  }
  EXPECT_EQ(block.WhyNot(), "");
}

TEST(MemoryBlock, AnythingElseIsRefused) {
  Block block;
  EXPECT_THAT(block.WhyNot(), HasSubstr("no snapshot"));
  EXPECT_FALSE(ReadBlock({}));
  EXPECT_FALSE(ReadBlock(block.bytes().first(3)));
  ASSERT_TRUE(WriteBlock(block.bytes(), SnapshotAt(7), Facts()));
  for (const std::size_t word : {1, 2, 3}) {  // Sizes.
    Block lie = block;
    lie.words[word] = ~0ULL - 7;
    EXPECT_THAT(lie.WhyNot(), HasSubstr("sizes"));
  }
  EXPECT_FALSE(ReadBlock(block.bytes().first(200)));
}

}  // namespace
}  // namespace ddprun
