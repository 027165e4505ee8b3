#include "trainer/data/batch_feed.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// Samples that are their own index.
Samples Numbers(std::uint32_t count) {
  return {count,
          [](std::span<const std::uint32_t> indices, const std::optional<AugmentKey>& key,
             const BatchRoom& room) -> Result<void> {
            for (std::size_t i = 0; i < indices.size(); ++i) {
              room.inputs[0][i] = static_cast<float>(indices[i] + 1000 * key->epoch);
            }
            return {};
          }};
}

struct Seen {
  std::uint64_t epoch;
  bool begins;
  bool ends;
  std::vector<float> numbers;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> Take(const FeedPlan& plan, int parts, std::uint32_t samples) {
  const Samples numbers = Numbers(samples);
  std::vector<float> memory[2] = {std::vector<float>(plan.most_per_part),
                                  std::vector<float>(plan.most_per_part)};
  std::array<BatchRoom, 2> rooms;
  rooms[0].inputs[0] = memory[0].data();
  rooms[1].inputs[0] = memory[1].data();
  BatchFeed feed(numbers.count, plan, GatherInto(numbers, rooms));
  std::vector<Seen> seen;
  for (int i = 0; i < parts; ++i) {
    const FeedPart& part = **feed.Next();
    const float* const first = memory[part.slot].data();
    seen.push_back(
        {part.batch.epoch, part.begins_step(), part.ends_step(), {first, first + part.count}});
  }
  return seen;
}

TEST(BatchFeed, CutsAShareInPartsThatAreTheShare) {
  FeedPlan plan{.seed = 3, .global_batch = 20, .most_per_part = 4, .rank = 1, .world_size = 2};
  const std::vector<Seen> parts = Take(plan, 3, 100);
  EXPECT_EQ(parts[0].numbers.size(), 4u);
  EXPECT_EQ(parts[2].numbers.size(), 2u);
  EXPECT_TRUE(parts[0].begins && !parts[0].ends && !parts[1].begins && parts[2].ends);
  plan.most_per_part = 10;
  std::vector<float> joined;
  for (const Seen& part : parts) {
    joined.insert(joined.end(), part.numbers.begin(), part.numbers.end());
  }
  EXPECT_EQ(Take(plan, 1, 100)[0].numbers, joined);
}

TEST(BatchFeed, ARankWithoutSamplesTakesTheStepToo) {
  const FeedPlan plan{.global_batch = 4, .most_per_part = 2, .rank = 1, .world_size = 2};
  const std::vector<Seen> parts = Take(plan, 3, 5);  // 4 samples, then 1: none for rank 1.
  EXPECT_EQ(parts[1].numbers.size(), 0u);
  EXPECT_TRUE(parts[1].begins && parts[1].ends);
  EXPECT_EQ(parts[2].epoch, 1u);
}

TEST(BatchFeed, LeavesOutALastBatchThatIsTooSmall) {
  FeedPlan plan{.global_batch = 4, .most_per_part = 4};
  const std::vector<Seen> all = Take(plan, 4, 5);
  plan.least_batch = 4;
  const std::vector<Seen> parts = Take(plan, 2, 5);
  EXPECT_EQ(parts, (std::vector<Seen>{all[0], all[2]}));
}

// The thread changes when samples are gathered, never which.
TEST(BatchFeed, AheadGivesTheSameParts) {
  for (const std::uint64_t most_per_part : {3, 16}) {
    FeedPlan plan{.start = {2, 40},
                  .seed = 9,
                  .global_batch = 16,
                  .most_per_part = most_per_part,
                  .rank = 0,
                  .world_size = 2};
    const std::vector<Seen> behind = Take(plan, 300, 100);
    plan.ahead = true;
    EXPECT_EQ(behind, Take(plan, 300, 100));
    EXPECT_EQ(behind.front().epoch, 2u);
  }
}

// Said by who asks for the part, on whichever thread it failed.
TEST(BatchFeed, SaysWhatCouldNotBeRead) {
  for (const bool ahead : {false, true}) {
    int gathered = 0;  // Read once the feed has failed or ended.
    const Samples samples = {100,
                             [&](std::span<const std::uint32_t>, const std::optional<AugmentKey>&,
                                 const BatchRoom&) -> Result<void> {
                               if (++gathered == 3) {
                                 return Error{ErrorKind::kSystem, "the file is gone"};
                               }
                               return {};
                             }};
    const FeedPlan plan{.global_batch = 8, .most_per_part = 8, .ahead = ahead};
    BatchFeed feed(samples.count, plan, GatherInto(samples, {}));
    EXPECT_TRUE(feed.Next());
    EXPECT_TRUE(feed.Next());
    const Result<const FeedPart*> third = feed.Next();
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().message, "the file is gone");
    EXPECT_EQ(gathered, 3);
  }
}

TEST(BatchFeed, EndsWhateverItWasDoing) {
  const FeedPlan plan{.global_batch = 8, .most_per_part = 8, .ahead = true};
  for (int parts = 0; parts < 5; ++parts) {
    EXPECT_EQ(Take(plan, parts, 100).size(), static_cast<std::size_t>(parts));
  }
}

}  // namespace
}  // namespace ddprun
