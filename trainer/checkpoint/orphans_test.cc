#include "trainer/checkpoint/orphans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kDirectory = "/nowhere-ddprun/ckpt";

// World("a", 1) has the name ...0abc001.
const std::string kNamed = "step-00000001-0000000000abc001";
const std::string kUnnamed = "step-00000002-0000000000abc001";
const std::string kAgain = "step-00000002-0000000000abc001.2";

FenceRecord Record(std::uint64_t number, std::uint64_t generation,
                   std::vector<CheckpointRef> lineage,
                   std::optional<CheckpointRef> best = std::nullopt) {
  return {number, RecordKind::kClaim, World("a", generation), std::move(lineage), best};
}

TEST(Orphans, AreWhatAWorldOfTheLogWroteAndNoRecordNames) {
  const FenceRecord claim = Record(9, 3, {{kNamed, 1}});
  EXPECT_THAT(Orphans({kNamed, kUnnamed, kAgain, "fence-9", "best.json"}, claim,
                      {Record(8, 1, {{kNamed, 1}})}),
              ElementsAre(kUnnamed, kAgain));
}

TEST(Orphans, AreNothingOfAWorldThatTheLogDoesNotKnow) {
  EXPECT_THAT(Orphans({kUnnamed}, Record(9, 3, {}), {Record(8, 2, {})}), IsEmpty());
}

TEST(Orphans, AreNothingOfTheClaimantItself) {
  EXPECT_THAT(Orphans({kUnnamed}, Record(9, 1, {}), {Record(8, 1, {})}), IsEmpty());
}

TEST(Orphans, AreNothingThatAnotherLineageNamesOrHasAsItsBest) {
  const std::vector<FenceRecord> before = {Record(8, 2, {}),
                                           Record(7, 1, {{kNamed, 1}}, {{kAgain, 2}})};
  EXPECT_THAT(Orphans({kNamed, kUnnamed, kAgain}, Record(9, 3, {}), before), ElementsAre(kUnnamed));
}

std::vector<std::string> Checkpoints(MemoryFileSystem& files) {
  std::vector<std::string> names = files.List(kDirectory).value();
  std::erase_if(names, [](const std::string& name) { return !IsCheckpointName(name); });
  return names;
}

// Wherever a world is killed, the second save of the next one leaves what the retention rule keeps.
TEST(Orphans, AreGoneAfterTheNextWorldsSaves) {
  CheckpointConfig config = ConfigFor(kDirectory);
  config.keep_last = 2;
  MemoryFileSystem disk;
  {
    CheckpointStore store(disk, config);
    ASSERT_TRUE(store.Claim(World("a", 1)));
    ASSERT_TRUE(store.Save(SnapshotAt(1)));
    ASSERT_TRUE(store.Save(SnapshotAt(2)));
  }
  const auto save = [&](MemoryFileSystem& files) {
    CheckpointStore store(files, config);
    return store.Claim(World("a", 2)) && store.Load() && store.Save(SnapshotAt(3));
  };
  MemoryFileSystem counting = disk;
  counting.operations = 0;
  ASSERT_TRUE(save(counting));
  int orphans = 0;
  for (int k = 1; k <= counting.operations; ++k) {
    SCOPED_TRACE("killed at operation " + std::to_string(k));
    MemoryFileSystem files = disk;
    files.operations = 0;
    files.kill_at = k;
    save(files);
    files.Restart(MemoryFileSystem::PowerCut::kNone, 0);
    orphans += Checkpoints(files).size() > 2 ? 1 : 0;
    CheckpointStore idle(files, config);  // Killed before it saved anything.
    ASSERT_TRUE(idle.Claim(World("a", 3)));
    ASSERT_TRUE(idle.Load());
    CheckpointStore next(files, config);
    ASSERT_TRUE(next.Claim(World("a", 4)));
    ASSERT_TRUE(next.Load());
    ASSERT_TRUE(next.Save(SnapshotAt(10)));
    ASSERT_TRUE(next.Save(SnapshotAt(11)));
    EXPECT_EQ(Checkpoints(files).size(), 2u) << testing::PrintToString(Checkpoints(files));
  }
  EXPECT_GT(orphans, 3);
}

}  // namespace
}  // namespace ddprun
