#include "trainer/checkpoint/memory_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/checkpoint/checkpoint_testing.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

// A block as a process leaves it.
struct Block {
  explicit Block(std::size_t size = BlockBytes(SnapshotAt(7))) : bytes(std::string(size, '\0')) {}
  std::string WhyNot() const {
    const Result<Snapshot> read = ReadBlock(bytes);
    return read ? "" : read.error().message;
  }
  Bytes bytes;
};

TEST(MemoryBlock, AWrittenBlockIsRead) {
  Block block;
  const Snapshot written = SnapshotAt(7);
  ASSERT_TRUE(WriteBlock(block.bytes, written));
  const Result<Snapshot> read = ReadBlock(block.bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->model, written.model);
  EXPECT_EQ(read->optimizer, written.optimizer);
  EXPECT_EQ(read->state.step, 7U);
  EXPECT_EQ(read->state.parent, written.state.parent);
  EXPECT_EQ(read->state.metrics, written.state.metrics);
  ASSERT_TRUE(WriteBlock(block.bytes, SnapshotAt(8)));
  EXPECT_EQ(ReadBlock(block.bytes)->state.step, 8U);
}

TEST(MemoryBlock, ModelAndOptimizerMayHaveTensorsOfTheSameName) {
  Block block;
  Snapshot written = SnapshotAt(7);
  written.optimizer = written.model;
  ASSERT_TRUE(WriteBlock(block.bytes, written));
  EXPECT_EQ(ReadBlock(block.bytes)->model, written.model);
  EXPECT_EQ(ReadBlock(block.bytes)->optimizer, written.optimizer);
}

TEST(MemoryBlock, ATextThatDoesNotFitLeavesItAsItWas) {
  Block block;
  ASSERT_TRUE(WriteBlock(block.bytes, SnapshotAt(7)));
  Snapshot large = SnapshotAt(8);
  large.model[0] = Floats("fc.weight", std::vector<float>(100'000));
  EXPECT_FALSE(WriteBlock(block.bytes, large));
  EXPECT_EQ(ReadBlock(block.bytes)->state.step, 7U);
  for (const std::size_t size : {0, 8, 100}) {
    Block small(size);
    EXPECT_FALSE(WriteBlock(small.bytes, SnapshotAt(7)));
  }
}

TEST(MemoryBlock, AChangedBitIsSeen) {
  Block block;
  ASSERT_TRUE(WriteBlock(block.bytes, SnapshotAt(7)));
  const std::size_t used = block.bytes.size() - (64 << 10);
  for (std::size_t i = 0; i < used; ++i) {
    block.bytes.mutable_data()[i] ^= 4;
    EXPECT_FALSE(ReadBlock(block.bytes)) << i;
    block.bytes.mutable_data()[i] ^= 4;
  }
  EXPECT_EQ(block.WhyNot(), "");
}

TEST(MemoryBlock, AnythingElseIsRefused) {
  Block block;
  EXPECT_THAT(block.WhyNot(), HasSubstr("no snapshot"));
  EXPECT_FALSE(ReadBlock({}));
  EXPECT_FALSE(ReadBlock(block.bytes.Slice(0, 3)));
  ASSERT_TRUE(WriteBlock(block.bytes, SnapshotAt(7)));
  EXPECT_THAT(ReadBlock(block.bytes.Slice(0, 200)).error().message, HasSubstr("size"));
  block.bytes.mutable_data()[15] = '\xff';  // Of the size.
  EXPECT_THAT(block.WhyNot(), HasSubstr("size"));
}

}  // namespace
}  // namespace ddprun
