#include "trainer/checkpoint/memory_start.h"

#include <gtest/gtest.h>

#include <vector>

#include "trainer/checkpoint/checkpoint_testing.h"

namespace ddprun {
namespace {

const CheckpointRef kBase{"step-00000100-0000000000abc001", 11};

CheckpointRef MadeAt(std::uint64_t step, std::uint64_t generation) {
  return {CheckpointName({step, World("run", generation).world_id}), 1};
}

struct Scenario {
  // Left by generation 2 at step 150, on its way from kBase.
  Scenario() {
    state = StateOf(2, 150);
    disk.head = kBase;
  }
  static TrainState StateOf(std::uint64_t generation, std::uint64_t step) {
    const Writer writer = World("run", generation);
    TrainState state;
    state.run_id = writer.run_id;
    state.term = writer.term;
    state.generation = writer.generation;
    state.world_id = writer.world_id;
    state.step = step;
    state.parent = kBase.directory;
    return state;
  }
  bool Counts() const { return !WhyNotFromMemory(state, best, writer, disk); }

  TrainState state;
  std::optional<std::uint64_t> best;
  Writer writer = World("run", 3);
  DiskHead disk;
};

TEST(MemoryStart, CountsWhereTheHeadIsItsParent) {
  Scenario scenario;
  EXPECT_TRUE(scenario.Counts());
  scenario.disk.head->directory += ".2";
  EXPECT_FALSE(scenario.Counts());
  scenario.disk.head.reset();
  EXPECT_FALSE(scenario.Counts()) << "the directory was emptied";
  scenario.state.parent.clear();
  EXPECT_TRUE(scenario.Counts()) << "begun from nothing, and nothing is committed";
  scenario.disk.head = kBase;
  EXPECT_FALSE(scenario.Counts());
}

TEST(MemoryStart, CountsWhereItsWorldMadeTheHeadOnTheWayThere) {
  Scenario scenario;
  for (const auto& [step, counts] : {std::pair(120, true), {150, true}, {151, false}}) {
    scenario.disk.head = MadeAt(step, 2);
    EXPECT_EQ(scenario.Counts(), counts) << step;
  }
  scenario.disk.head = MadeAt(120, 2);
  scenario.disk.head->directory += ".2";
  EXPECT_TRUE(scenario.Counts());
}

// A larger step proves nothing: what another world made is no ancestor.
TEST(MemoryStart, NeverWhereAnotherWorldHasMovedTheHead) {
  Scenario scenario;
  for (const std::uint64_t generation : {1, 3, 4}) {
    for (const std::uint64_t step : {1, 149, 150, 1000}) {
      scenario.disk.head = MadeAt(step, generation);
      EXPECT_FALSE(scenario.Counts()) << generation << " " << step;
    }
  }
}

TEST(MemoryStart, OnlyOfMyRunAndAnEarlierWorld) {
  Scenario scenario;
  scenario.writer.run_id = "other";
  EXPECT_FALSE(scenario.Counts());
  scenario = {};
  scenario.state = Scenario::StateOf(3, 150);
  EXPECT_FALSE(scenario.Counts());
  scenario.state = Scenario::StateOf(4, 150);
  EXPECT_FALSE(scenario.Counts());
  scenario.writer.term = Term{8};
  EXPECT_TRUE(scenario.Counts()) << "a later term orders first";
}

TEST(MemoryStart, ABestOneThatIsNotSavedIsNotPassed) {
  Scenario scenario;
  scenario.best = 140;
  EXPECT_FALSE(scenario.Counts());
  scenario.disk.best = MadeAt(130, 2);
  EXPECT_FALSE(scenario.Counts());
  scenario.disk.best = MadeAt(140, 2);
  EXPECT_TRUE(scenario.Counts());
}

// As the group's sum makes it; step 0: a rank without a state.
std::optional<std::uint32_t> Newest(
    const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranks) {
  std::vector<double> numbers(kAgeNumbers * ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].second > 0) {
      PutAge(Scenario::StateOf(ranks[rank].first, ranks[rank].second),
             std::span<double, kAgeNumbers>(&numbers[kAgeNumbers * rank], kAgeNumbers));
    }
  }
  return NewestOf(numbers);
}

TEST(MemoryStart, TheNewestIsNotTheLargestStep) {
  EXPECT_EQ(Newest({{2, 900}, {3, 150}, {3, 200}, {2, 901}}), 2U);
}

TEST(MemoryStart, TheLowestRankThatHasTheNewestSendsIt) {
  EXPECT_EQ(Newest({{0, 0}, {2, 100}, {2, 100}, {2, 90}}), 1U);
  EXPECT_EQ(Newest({{0, 0}, {0, 0}}), std::nullopt);
}

}  // namespace
}  // namespace ddprun
