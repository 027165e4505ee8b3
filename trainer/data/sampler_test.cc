#include "trainer/data/sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace ddprun {
namespace {

TEST(Permutation, IsOneForEverySize) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    const Permutation permutation(size, 1, 0);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) {
      ASSERT_LT(permutation.At(i), size);
      seen.insert(permutation.At(i));
    }
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(Permutation, DependsOnSeedAndEpochAndNothingElse) {
  const Permutation one(60000, 1, 2);
  const Permutation again(60000, 1, 2);
  const Permutation swapped(60000, 2, 1);
  const Permutation next(60000, 1, 3);
  int same_swapped = 0;
  int same_next = 0;
  for (std::uint64_t i = 0; i < 60000; ++i) {
    ASSERT_EQ(one.At(i), again.At(i));
    same_swapped += one.At(i) == swapped.At(i);
    same_next += one.At(i) == next.At(i);
  }
  EXPECT_LT(same_swapped, 20);  // One is expected of two unrelated orders.
  EXPECT_LT(same_next, 20);
}

// A batch must be a fair draw: every tenth of the data set appears in each tenth of the epoch.
TEST(Permutation, SpreadsTheDataSetOverTheEpoch) {
  const std::uint64_t size = 60000;
  const Permutation permutation(size, 3, 1);
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> cells;
  for (std::uint64_t i = 0; i < size; ++i) {
    ++cells[{i / 6000, permutation.At(i) / 6000}];
  }
  double chi_square = 0;
  for (std::uint64_t row = 0; row < 10; ++row) {
    for (std::uint64_t column = 0; column < 10; ++column) {
      const double off = cells[{row, column}] - 600.0;
      chi_square += off * off / 600.0;
    }
  }
  EXPECT_LT(chi_square, 140);  // 81 degrees of freedom; less would be exceeded once in 10,000.
  EXPECT_GT(chi_square, 35);   // Nor suspiciously even.
}

TEST(Permutation, SeeksWithoutComputingWhatComesBefore) {
  const std::uint64_t size = std::uint64_t{1} << 60;
  const Permutation permutation(size, 1, 0);
  EXPECT_NE(permutation.At(size - 1), permutation.At(size - 2));
}

TEST(Sampler, LastBatchOfAnEpochIsWhatIsLeft) {
  const GlobalBatch batch = BatchAt({4, 96}, 100, 64);
  EXPECT_EQ(batch.epoch, 4u);
  EXPECT_EQ(batch.first, 96u);
  EXPECT_EQ(batch.count, 4u);
  EXPECT_EQ(CursorAfter(batch, 100), (Cursor{5, 0}));
  EXPECT_EQ(StepsPerEpoch(100, 64), 2u);
  EXPECT_EQ(StepsPerEpoch(128, 64), 2u);
}

TEST(Sampler, ALastBatchThatIsTooSmallCanBeLeftOut) {
  EXPECT_EQ(CursorAfter(BatchAt({4, 0}, 100, 64), 100, 64), (Cursor{5, 0}));
  EXPECT_EQ(CursorAfter(BatchAt({4, 0}, 128, 64), 128, 64), (Cursor{4, 64}));
  EXPECT_EQ(StepsPerEpoch(100, 64, 64), 1u);
  EXPECT_EQ(StepsPerEpoch(128, 64, 64), 2u);
  EXPECT_EQ(StepsPerEpoch(63, 64, 64), 0u);
}

TEST(Sampler, RankWithoutASampleGetsAnEmptyShare) {
  const Permutation permutation(100, 1, 0);
  std::vector<std::uint32_t> indices = {7};
  FillShare(permutation, {0, 98, 2}, 2, 3, indices);
  EXPECT_TRUE(indices.empty());
  EXPECT_EQ(LargestShare(64, 3), 22u);
}

// The world shrinks and grows in mid-epoch, the global batch changes with it: still every sample
// of every epoch once.
TEST(Sampler, ExactlyOnceOverEpochsAtChangingWorldSizes) {
  const std::uint64_t size = 997;
  const std::vector<std::pair<std::uint32_t, std::uint64_t>> worlds = {
      {2, 64}, {3, 64}, {1, 64}, {4, 100}, {7, 5}};
  std::map<std::uint64_t, std::map<std::uint32_t, int>> used;
  Cursor cursor;
  std::vector<std::uint32_t> share;
  for (int step = 0; cursor.epoch < 3; ++step) {
    const auto& [world, global_batch] = worlds[(step / 5) % worlds.size()];
    const GlobalBatch batch = BatchAt(cursor, size, global_batch);
    const Permutation permutation(size, 9, batch.epoch);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      FillShare(permutation, batch, rank, world, share);
      for (const std::uint32_t index : share) {
        ++used[batch.epoch][index];
      }
    }
    cursor = CursorAfter(batch, size);
  }
  ASSERT_EQ(used.size(), 3u);
  for (const auto& [epoch, counts] : used) {
    EXPECT_EQ(counts.size(), size);
    for (const auto& [index, count] : counts) {
      ASSERT_EQ(count, 1) << "epoch " << epoch << " sample " << index;
    }
  }
}

TEST(Sampler, StepSeedsDiffer) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t step = 0; step < 10; ++step) {
      for (std::uint32_t rank = 0; rank < 10; ++rank) {
        seeds.insert(StepSeed(seed, step, rank));
      }
    }
  }
  EXPECT_EQ(seeds.size(), 1000u);
}

}  // namespace
}  // namespace ddprun
