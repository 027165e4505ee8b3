#include "trainer/checkpoint/memory_start.h"

#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint_fixtures.h"

namespace ddprun {
namespace {

const CheckpointRef kBase{"step-00000100-0000000000abc001", 11};

CheckpointRef MadeAt(std::uint64_t step, std::uint64_t generation, std::uint64_t digest = 1) {
  char name[64];
  std::snprintf(name, sizeof name, "step-%08llu-%s", static_cast<unsigned long long>(step),
                Hex(World("run", generation).world_id.value).c_str());
  return {name, digest};
}

struct Story {
  // Left by generation 2 at step 150, on its way from kBase.
  Story() {
    facts.directory = "/ckpt";
    facts.base = kBase;
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
    return state;
  }
  static PathWorld On(std::uint64_t generation, std::uint64_t last_step) {
    const Writer writer = World("run", generation);
    return {writer.term, writer.generation, writer.world_id, last_step};
  }
  bool Counts() const { return !WhyNotFromMemory(facts, state, writer, directory, disk); }

  BlockFacts facts;
  TrainState state;
  Writer writer = World("run", 3);
  std::string directory = "/ckpt";
  DiskHead disk;
};

TEST(MemoryStart, CountsWhereTheHeadIsItsBase) {
  Story story;
  EXPECT_TRUE(story.Counts());
  story.disk.head->digest = 12;
  EXPECT_FALSE(story.Counts()) << "another content under the same name";
  story.disk.head.reset();
  EXPECT_FALSE(story.Counts()) << "the directory was emptied";
  story.facts.base.reset();
  EXPECT_TRUE(story.Counts()) << "begun from nothing, and nothing is committed";
  story.disk.head = kBase;
  EXPECT_FALSE(story.Counts());
}

TEST(MemoryStart, CountsWhereItsWorldMadeTheHeadOnTheWayThere) {
  Story story;
  for (const auto& [step, counts] : {std::pair(120, true), {150, true}, {151, false}}) {
    story.disk.head = MadeAt(step, 2);
    EXPECT_EQ(story.Counts(), counts) << step;
  }
  story.disk.head = MadeAt(120, 2);
  story.disk.head->directory += ".2";
  EXPECT_TRUE(story.Counts());
}

// A larger step proves nothing: what another world made is no ancestor.
TEST(MemoryStart, NeverWhereAnotherWorldHasMovedTheHead) {
  Story story;
  for (const std::uint64_t generation : {1, 3, 4}) {
    for (const std::uint64_t step : {1, 149, 150, 1000}) {
      story.disk.head = MadeAt(step, generation);
      EXPECT_FALSE(story.Counts()) << generation << " " << step;
    }
  }
}

TEST(MemoryStart, OnlyOfMyRunAndDirectoryAndAnEarlierWorld) {
  Story story;
  story.directory = "/other";
  EXPECT_FALSE(story.Counts());
  story = {};
  story.writer.run_id = "other";
  EXPECT_FALSE(story.Counts());
  story = {};
  story.state = Story::StateOf(3, 150);
  EXPECT_FALSE(story.Counts());
  story.state = Story::StateOf(4, 150);
  EXPECT_FALSE(story.Counts());
  story.writer.term = Term{8};
  EXPECT_TRUE(story.Counts()) << "a later term orders first";
}

TEST(MemoryStart, ABestOneThatIsNotSavedIsNotPassed) {
  Story story;
  story.facts.best = 140;
  EXPECT_FALSE(story.Counts());
  story.disk.best = MadeAt(130, 2);
  EXPECT_FALSE(story.Counts());
  story.disk.best = MadeAt(140, 2);
  EXPECT_TRUE(story.Counts());
}

// Two worlds died before they had claimed the directory: what they began from is still an ancestor.
TEST(MemoryStart, AWorldOfThePathCountsUpToItsLastStepThere) {
  Story story;
  story.writer = World("run", 5);
  story.state = Story::StateOf(4, 300);
  story.facts.path = {Story::On(2, 150), Story::On(3, 200)};
  EXPECT_TRUE(story.Counts()) << "the base";
  for (const auto& [generation, step, counts] : {std::tuple(2, 150, true),
                                                 {2, 151, false},
                                                 {3, 120, true},
                                                 {3, 200, true},
                                                 {3, 201, false},
                                                 {4, 300, true},
                                                 {4, 301, false},
                                                 {1, 120, false}}) {
    story.disk.head = MadeAt(step, generation);
    EXPECT_EQ(story.Counts(), counts) << generation << " " << step;
  }
  EXPECT_EQ(PathFrom(story.facts, story.state),
            (std::vector<PathWorld>{Story::On(2, 150), Story::On(3, 200), Story::On(4, 300)}));
}

TEST(MemoryStart, APathHasAnEnd) {
  Story story;
  story.facts.path.assign(kMostPath - 1, Story::On(1, 100));
  EXPECT_TRUE(story.Counts());
  story.facts.path.push_back(Story::On(1, 100));
  EXPECT_FALSE(story.Counts());
}

TEST(MemoryStart, TheBestOneItselfCountsAndIsOwed) {
  Story story;
  story.facts.best = 150;
  EXPECT_TRUE(story.Counts());
  EXPECT_TRUE(OwesBest(story.facts, story.state, story.disk));
  story.disk.best = MadeAt(150, 2);
  EXPECT_FALSE(OwesBest(story.facts, story.state, story.disk));
  story.facts.best.reset();
  EXPECT_FALSE(OwesBest(story.facts, story.state, story.disk));
}

TEST(MemoryStart, ANameTellsWhoMadeIt) {
  const auto made = WhoMade({"step-123456789012-00000000000000ff.17", 0});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->step, 123456789012U);
  EXPECT_EQ(made->world, WorldId{255});
  EXPECT_FALSE(WhoMade({"step-1-xyz", 0}));
  EXPECT_FALSE(WhoMade({"", 0}));
}

}  // namespace
}  // namespace ddprun
