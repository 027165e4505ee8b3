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
    claim = {World("run", 3), "/ckpt", kBase, std::nullopt};
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
  bool Counts() const { return !WhyNotFromMemory(facts, state, claim); }

  BlockFacts facts;
  TrainState state;
  MemoryClaim claim;
};

TEST(MemoryStart, CountsWhereTheHeadIsItsBase) {
  Story story;
  EXPECT_TRUE(story.Counts());
  story.claim.head->digest = 12;
  EXPECT_FALSE(story.Counts()) << "another content under the same name";
  story.claim.head.reset();
  EXPECT_FALSE(story.Counts()) << "the directory was emptied";
  story.facts.base.reset();
  EXPECT_TRUE(story.Counts()) << "begun from nothing, and nothing is committed";
  story.claim.head = kBase;
  EXPECT_FALSE(story.Counts());
}

TEST(MemoryStart, CountsWhereItsWorldMadeTheHeadOnTheWayThere) {
  Story story;
  for (const auto& [step, counts] : {std::pair(120, true), {150, true}, {151, false}}) {
    story.claim.head = MadeAt(step, 2);
    EXPECT_EQ(story.Counts(), counts) << step;
  }
  story.claim.head = MadeAt(120, 2);
  story.claim.head->directory += ".2";
  EXPECT_TRUE(story.Counts());
}

// A larger step proves nothing: what another world made is no ancestor.
TEST(MemoryStart, NeverWhereAnotherWorldHasMovedTheHead) {
  Story story;
  for (const std::uint64_t generation : {1, 3, 4}) {
    for (const std::uint64_t step : {1, 149, 150, 1000}) {
      story.claim.head = MadeAt(step, generation);
      EXPECT_FALSE(story.Counts()) << generation << " " << step;
    }
  }
}

TEST(MemoryStart, OnlyOfMyRunAndDirectoryAndAnEarlierWorld) {
  Story story;
  story.claim.directory = "/other";
  EXPECT_FALSE(story.Counts());
  story = {};
  story.claim.writer.run_id = "other";
  EXPECT_FALSE(story.Counts());
  story = {};
  story.state = Story::StateOf(3, 150);
  EXPECT_FALSE(story.Counts());
  story.state = Story::StateOf(4, 150);
  EXPECT_FALSE(story.Counts());
  story.claim.writer.term = Term{8};
  EXPECT_TRUE(story.Counts()) << "a later term orders first";
}

TEST(MemoryStart, ABestOneThatIsNotSavedIsNotPassed) {
  Story story;
  story.facts.best = 140;
  EXPECT_FALSE(story.Counts());
  story.claim.best = MadeAt(130, 2);
  EXPECT_FALSE(story.Counts());
  story.claim.best = MadeAt(140, 2);
  EXPECT_TRUE(story.Counts());
}

TEST(MemoryStart, TheNewestIsNotTheLargestStep) {
  std::vector<MemorySnapshot> found(3);
  EXPECT_EQ(NewestOf({}), nullptr);
  found[0].snapshot.state = Story::StateOf(2, 900);
  found[1].snapshot.state = Story::StateOf(3, 200);
  found[2].snapshot.state = Story::StateOf(3, 150);
  EXPECT_EQ(NewestOf(found), &found[1]);
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
