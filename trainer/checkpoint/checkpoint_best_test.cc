#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint_fixtures.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

constexpr const char* kDirectory = "/nowhere-ddprun/ckpt";

CheckpointConfig Config() {
  CheckpointConfig config = ConfigFor(kDirectory);
  config.keep_last = 2;
  return config;
}

std::string SaveStep(CheckpointStore& store, std::uint64_t step, bool best) {
  Snapshot snapshot = SnapshotAt(step);
  snapshot.state.best = best;
  const Result<SaveReport> report = store.Save(snapshot);
  EXPECT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->warnings, testing::IsEmpty());
  return report->ref.directory;
}

std::vector<std::string> Checkpoints(MemoryFileSystem& files) {
  std::vector<std::string> names = files.List(kDirectory).value();
  std::erase_if(names, [](const std::string& name) { return !IsCheckpointName(name); });
  return names;
}

std::uint64_t BestStep(const CheckpointStore& store) {
  const auto best = store.LoadBest();
  EXPECT_TRUE(best) << best.error().message;
  return best && *best ? (*best)->snapshot.state.step : 0;
}

TEST(CheckpointBest, OutlivesTheRetentionRuleUntilItIsSurpassed) {
  MemoryFileSystem files;
  CheckpointStore store(files, Config());
  ASSERT_TRUE(store.Claim(World("a", 1)));
  EXPECT_EQ(BestStep(store), 0u);
  const std::string first = SaveStep(store, 1, true);
  // More than the lineage remembers.
  for (std::uint64_t step = 2; step < 20; ++step) {
    SaveStep(store, step, false);
    ASSERT_THAT(Checkpoints(files), testing::Contains(first)) << step;
  }
  EXPECT_EQ(Checkpoints(files).size(), 3u);
  EXPECT_EQ(BestStep(store), 1u);
  SaveStep(store, 20, true);
  EXPECT_EQ(BestStep(store), 20u);
  EXPECT_THAT(Checkpoints(files), testing::Not(testing::Contains(first)));
  EXPECT_EQ(Checkpoints(files).size(), 2u) << "the best is one of the last two";
}

TEST(CheckpointBest, IsFoundAgainAfterARestart) {
  MemoryFileSystem files;
  {
    CheckpointStore store(files, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    SaveStep(store, 1, true);
    for (std::uint64_t step = 2; step < 6; ++step) {
      SaveStep(store, step, false);
    }
  }
  CheckpointStore next(files, Config());
  ASSERT_TRUE(next.Claim(World("a", 2)));
  ASSERT_TRUE(next.Load());
  EXPECT_EQ(BestStep(next), 1u);
  for (std::uint64_t step = 6; step < 20; ++step) {
    SaveStep(next, step, false);
  }
  EXPECT_EQ(BestStep(next), 1u);
  SaveStep(next, 20, true);
  EXPECT_EQ(BestStep(next), 20u);
  EXPECT_EQ(Checkpoints(files).size(), 2u) << "the first world's best is gone";
}

TEST(CheckpointBest, ATrainingBegunAfreshLeavesTheOldBestAlone) {
  MemoryFileSystem files;
  std::string old;
  {
    CheckpointStore store(files, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    old = SaveStep(store, 1, true);
    ASSERT_TRUE(store.Close());
  }
  CheckpointStore afresh(files, Config());
  ASSERT_TRUE(afresh.Claim(World("b", 2)));
  afresh.StartAfresh();
  EXPECT_EQ(BestStep(afresh), 0u);
  for (std::uint64_t step = 2; step < 9; ++step) {
    SaveStep(afresh, step, true);
  }
  EXPECT_THAT(Checkpoints(files), testing::Contains(old));
}

TEST(CheckpointBest, IsNotAnotherLineagesAfterARestartBeforeTheFirstOne) {
  MemoryFileSystem files;
  std::string old;
  {
    CheckpointStore store(files, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    old = SaveStep(store, 1, true);
    ASSERT_TRUE(store.Close());
  }
  {
    CheckpointStore afresh(files, Config());
    ASSERT_TRUE(afresh.Claim(World("b", 2)));
    afresh.StartAfresh();
    SaveStep(afresh, 2, false);
  }  // Killed.
  CheckpointStore again(files, Config());
  ASSERT_TRUE(again.Claim(World("b", 3)));
  ASSERT_EQ(again.Load()->checkpoint->snapshot.state.step, 2u);
  EXPECT_EQ(BestStep(again), 0u) << "it publishes what another training found";
  SaveStep(again, 3, true);
  EXPECT_EQ(BestStep(again), 3u);
  EXPECT_THAT(Checkpoints(files), testing::Contains(old));
}

// As a release of this program left it that named the best one by best.json alone.
void ForgetBest(MemoryFileSystem& files) {
  for (const std::string& name : files.List(kDirectory).value()) {
    const auto path = std::filesystem::path(kDirectory) / name;
    if (name.starts_with("fence-") && name != "fence-alive") {
      FenceRecord record = FenceRecordFromText(files.Read(path, 1 << 16).value(), 1, name).value();
      record.best.reset();
      ASSERT_TRUE(files.Write(path, {ToText(record)}));
    }
  }
}

TEST(CheckpointBest, OfAnOlderReleaseIsTakenOverWhereTheRecordsConnectIt) {
  MemoryFileSystem files;
  std::string old;
  {
    CheckpointStore store(files, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    old = SaveStep(store, 1, true);
    for (std::uint64_t step = 2; step < 30; ++step) {  // More than the lineage remembers.
      SaveStep(store, step, false);
    }
  }
  ForgetBest(files);
  {
    CheckpointStore next(files, Config());
    ASSERT_TRUE(next.Claim(World("a", 2)));
    EXPECT_THAT(next.Load()->warnings,
                testing::ElementsAre(testing::HasSubstr("is this training's best so far")));
    EXPECT_EQ(BestStep(next), 1u);
    SaveStep(next, 30, false);
  }
  CheckpointStore again(files, Config());
  ASSERT_TRUE(again.Claim(World("a", 3)));
  EXPECT_THAT(again.Load()->warnings, testing::IsEmpty()) << "said once";
  EXPECT_EQ(BestStep(again), 1u);
  SaveStep(again, 31, true);
  EXPECT_EQ(BestStep(again), 31u);
  EXPECT_THAT(Checkpoints(files), testing::Not(testing::Contains(old)));
}

TEST(CheckpointBest, OfAnOlderReleaseAndAnotherLineageIsLeftAlone) {
  MemoryFileSystem files;
  std::string old;
  {
    CheckpointStore store(files, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    old = SaveStep(store, 1, true);
    for (std::uint64_t step = 2; step < 100; ++step) {  // More than the records go back.
      SaveStep(store, step, false);
    }
    ASSERT_TRUE(store.Close());
  }
  {
    CheckpointStore afresh(files, Config());
    ASSERT_TRUE(afresh.Claim(World("b", 2)));
    afresh.StartAfresh();
    SaveStep(afresh, 3, false);
  }
  ForgetBest(files);
  CheckpointStore next(files, Config());
  ASSERT_TRUE(next.Claim(World("b", 3)));
  EXPECT_THAT(next.Load()->warnings,
              testing::ElementsAre(testing::HasSubstr("neither published nor removed")));
  EXPECT_EQ(BestStep(next), 0u);
  for (std::uint64_t step = 4; step < 9; ++step) {
    SaveStep(next, step, step == 4);
  }
  EXPECT_EQ(BestStep(next), 4u);
  EXPECT_THAT(Checkpoints(files), testing::Contains(old));
}

// Files that are not (any more) what the record of the best one says are nobody's best.
TEST(CheckpointBest, OfAnOlderReleaseThatIsGoneIsNotTakenOver) {
  MemoryFileSystem files;
  {
    CheckpointStore store(files, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    const std::string old = SaveStep(store, 1, true);
    SaveStep(store, 2, false);
    ASSERT_TRUE(files.Remove(std::filesystem::path(kDirectory) / old));
  }
  ForgetBest(files);
  CheckpointStore next(files, Config());
  ASSERT_TRUE(next.Claim(World("a", 2)));
  ASSERT_TRUE(next.Load());
  EXPECT_EQ(BestStep(next), 0u);
}

// A crash anywhere in a save leaves a whole checkpoint as the best: the old one or the new.
TEST(CheckpointBest, IsWholeWhereverASaveIsCutShort) {
  MemoryFileSystem disk;
  {
    ASSERT_TRUE(disk.MakeDirectory(kDirectory));
    ASSERT_TRUE(disk.Sync("/"));
    ASSERT_TRUE(disk.Sync("/nowhere-ddprun"));
    CheckpointStore store(disk, Config());
    ASSERT_TRUE(store.Claim(World("a", 1)));
    SaveStep(store, 1, true);
    SaveStep(store, 2, false);
    SaveStep(store, 3, false);
  }
  const auto save = [](MemoryFileSystem& files) {
    CheckpointStore store(files, Config());
    Snapshot snapshot = SnapshotAt(4);
    snapshot.state.best = true;
    return store.Claim(World("a", 2)) && store.Load() && store.Save(snapshot);
  };
  MemoryFileSystem counting = disk;
  counting.operations = 0;
  ASSERT_TRUE(save(counting));
  int found_old = 0;
  int found_new = 0;
  for (int k = 1; k <= counting.operations; ++k) {
    for (const auto cut :
         {MemoryFileSystem::PowerCut::kNone, MemoryFileSystem::PowerCut::kLosesAllUnsynced}) {
      SCOPED_TRACE("killed at operation " + std::to_string(k));
      MemoryFileSystem files = disk;
      files.operations = 0;
      files.kill_at = k;
      save(files);
      files.Restart(cut, 0);
      CheckpointStore next(files, Config());
      ASSERT_TRUE(next.Claim(World("a", 3)));
      const std::uint64_t step = BestStep(next);
      EXPECT_TRUE(step == 1 || step == 4) << step;
      (step == 1 ? found_old : found_new) += 1;
    }
  }
  EXPECT_GT(found_old, 20);
  EXPECT_GT(found_new, 3);
}

}  // namespace
}  // namespace ddprun
