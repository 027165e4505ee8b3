#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint_testing.h"
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

struct CheckpointBest : testing::Test {
  MemoryFileSystem files;

  // Run "a" saves these steps, of which the first is the best. Gives the best one's directory.
  std::string Train(std::uint64_t last, bool closes) {
    CheckpointStore store(files, Config());
    EXPECT_TRUE(store.Claim(World("a", 1)));
    std::string best = SaveStep(store, 1, true);
    for (std::uint64_t step = 2; step <= last; ++step) {
      SaveStep(store, step, false);
    }
    EXPECT_TRUE(!closes || store.Close());
    return best;
  }
  // Run "b" saves one step beside what is there, and is killed.
  void TrainAfresh(std::uint64_t step) {
    CheckpointStore afresh(files, Config());
    ASSERT_TRUE(afresh.Claim(World("b", 2)));
    afresh.StartAfresh();
    SaveStep(afresh, step, false);
  }
};

TEST_F(CheckpointBest, OutlivesTheRetentionRuleUntilItIsSurpassed) {
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

TEST_F(CheckpointBest, IsFoundAgainAfterARestart) {
  Train(5, /*closes=*/false);
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

TEST_F(CheckpointBest, ATrainingBegunAfreshLeavesTheOldBestAlone) {
  const std::string old = Train(1, /*closes=*/true);
  CheckpointStore afresh(files, Config());
  ASSERT_TRUE(afresh.Claim(World("b", 2)));
  afresh.StartAfresh();
  EXPECT_EQ(BestStep(afresh), 0u);
  for (std::uint64_t step = 2; step < 9; ++step) {
    SaveStep(afresh, step, true);
  }
  EXPECT_THAT(Checkpoints(files), testing::Contains(old));
}

TEST_F(CheckpointBest, IsNotAnotherLineagesAfterARestartBeforeTheFirstOne) {
  const std::string old = Train(1, /*closes=*/true);
  TrainAfresh(2);
  CheckpointStore again(files, Config());
  ASSERT_TRUE(again.Claim(World("b", 3)));
  ASSERT_EQ(again.Load()->checkpoint->snapshot.state.step, 2u);
  EXPECT_EQ(BestStep(again), 0u) << "it publishes what another training found";
  SaveStep(again, 3, true);
  EXPECT_EQ(BestStep(again), 3u);
  EXPECT_THAT(Checkpoints(files), testing::Contains(old));
}

// A crash anywhere in a save leaves a whole checkpoint as the best: the old one or the new.
TEST_F(CheckpointBest, IsWholeWhereverASaveIsCutShort) {
  ASSERT_TRUE(files.MakeDirectory(kDirectory));
  ASSERT_TRUE(files.Sync("/"));
  ASSERT_TRUE(files.Sync("/nowhere-ddprun"));
  Train(3, /*closes=*/false);
  const auto save = [](MemoryFileSystem& disk) {
    CheckpointStore store(disk, Config());
    Snapshot snapshot = SnapshotAt(4);
    snapshot.state.best = true;
    return store.Claim(World("a", 2)) && store.Load() && store.Save(snapshot);
  };
  const MemoryFileSystem disk = files;
  MemoryFileSystem counting = disk;
  counting.operations = 0;
  ASSERT_TRUE(save(counting));
  int found_old = 0;
  int found_new = 0;
  for (int k = 1; k <= counting.operations; ++k) {
    for (const auto cut :
         {MemoryFileSystem::PowerCut::kNone, MemoryFileSystem::PowerCut::kLosesAllUnsynced}) {
      SCOPED_TRACE("killed at operation " + std::to_string(k));
      files = disk;
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
