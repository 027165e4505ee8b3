// Every single file operation of a claim, a load and a save as the last one of a process, with and
// without a power cut, and every single one failing for want of space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

using PowerCut = MemoryFileSystem::PowerCut;

constexpr const char* kDirectory = "/nowhere-ddprun/ckpt";
constexpr std::uint64_t kOld = 40;
constexpr std::uint64_t kNew = 50;

CheckpointConfig Config() {
  CheckpointConfig config = ConfigFor(kDirectory);
  config.keep_last = 2;  // So that the new save prunes.
  return config;
}

// A directory with a history, safely on disk. `before`: so many saves more, at its beginning.
MemoryFileSystem DiskWithHistory(int before = 0) {
  MemoryFileSystem files;
  EXPECT_TRUE(files.MakeDirectory(kDirectory));
  EXPECT_TRUE(files.Sync("/"));
  EXPECT_TRUE(files.Sync("/nowhere-ddprun"));
  CheckpointStore store(files, Config());
  EXPECT_TRUE(store.Claim(World("a", 1)));
  for (int i = 0; i < before; ++i) {
    EXPECT_TRUE(store.Save(SnapshotAt(1)));
  }
  for (const std::uint64_t step : {20, 30, 40}) {
    EXPECT_TRUE(store.Save(SnapshotAt(step)));
  }
  return files;
}

// One generation's work; true if its save was acknowledged. `afresh`: it descends from nothing.
bool RunGeneration(MemoryFileSystem& files, std::uint64_t generation, std::uint64_t step,
                   bool afresh = false) {
  CheckpointStore store(files, Config());
  if (!store.Claim(World("a", generation))) {
    return false;
  }
  if (!store.Load()) {
    return false;
  }
  if (afresh) {
    store.StartAfresh();
  }
  if (!store.Save(SnapshotAt(step))) {
    return false;
  }
  (void)store.Close();  // The save stands, whatever becomes of it.
  return true;
}

int OperationsOf(const MemoryFileSystem& disk, bool afresh = false) {
  MemoryFileSystem files = disk;
  files.operations = 0;
  EXPECT_TRUE(RunGeneration(files, 2, kNew, afresh));
  return files.operations;
}

// The step that the next generation finds, whole.
std::uint64_t StepFound(MemoryFileSystem& files, std::uint64_t generation) {
  CheckpointStore store(files, Config());
  const auto claimed = store.Claim(World("a", generation));
  EXPECT_TRUE(claimed) << claimed.error().message;
  const Result<LoadOutcome> outcome = store.Load();
  EXPECT_TRUE(outcome) << outcome.error().message;
  if (!outcome || !outcome->checkpoint) {
    return 0;
  }
  EXPECT_THAT(outcome->warnings, testing::IsEmpty()) << "a crash breaks no committed checkpoint";
  const Snapshot& found = outcome->checkpoint->snapshot;
  EXPECT_EQ(found.model, SnapshotAt(found.state.step).model);
  EXPECT_EQ(found.optimizer, SnapshotAt(found.state.step).optimizer);
  return found.state.step;
}

bool HasLeftovers(MemoryFileSystem& files) {
  const std::vector<std::string> names = files.List(kDirectory).value();
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.starts_with("."); });
}

void KillEverywhere(PowerCut cut, unsigned seed, bool afresh = false, int before = 0) {
  const MemoryFileSystem disk = DiskWithHistory(before);
  const int operations = OperationsOf(disk, afresh);
  ASSERT_GT(operations, 40);
  int found_old = 0;
  int found_new = 0;
  for (int k = 1; k <= operations + 1; ++k) {
    SCOPED_TRACE("killed at operation " + std::to_string(k) + ", seed " + std::to_string(seed));
    MemoryFileSystem files = disk;
    files.operations = 0;
    files.kill_at = k;
    const bool acknowledged = RunGeneration(files, 2, kNew, afresh);
    files.Restart(cut, seed + static_cast<unsigned>(k));
    const std::uint64_t step = StepFound(files, 3);
    ASSERT_TRUE(step == kOld || step == kNew) << step;
    if (acknowledged) {
      EXPECT_EQ(step, kNew) << "an acknowledged save is never lost";
    }
    (step == kOld ? found_old : found_new) += 1;
    // And the next generation finds no obstacle.
    EXPECT_TRUE(RunGeneration(files, 4, 60));
    EXPECT_EQ(StepFound(files, 5), 60u);
    EXPECT_FALSE(HasLeftovers(files));
  }
  EXPECT_GT(found_old, 20);
  EXPECT_GT(found_new, 3);
}

TEST(CheckpointCrash, KilledAtAnyOperationLeavesTheOldOrTheNewCheckpoint) {
  KillEverywhere(PowerCut::kNone, 0);
}

TEST(CheckpointCrash, SoDoesAPowerCutThatTakesAllThatWasNotSynced) {
  KillEverywhere(PowerCut::kLosesAllUnsynced, 0);
}

TEST(CheckpointCrash, SoDoesAPowerCutThatTakesSomeOfIt) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    KillEverywhere(PowerCut::kLosesSome, seed * 1000);
  }
}

TEST(CheckpointCrash, AndWhereATrainingBeginsAfreshBesideAnOldOne) {
  for (const auto cut : {PowerCut::kNone, PowerCut::kLosesAllUnsynced, PowerCut::kLosesSome}) {
    KillEverywhere(cut, 0, /*afresh=*/true);
  }
}

// More records than are kept.
TEST(CheckpointCrash, AndWhereOldRecordsAreRemoved) {
  const MemoryFileSystem disk = DiskWithHistory(/*before=*/80);
  ASSERT_GT(OperationsOf(disk), OperationsOf(DiskWithHistory()) + 60);
  for (const auto cut : {PowerCut::kNone, PowerCut::kLosesAllUnsynced}) {
    KillEverywhere(cut, 0, /*afresh=*/false, /*before=*/80);
  }
}

TEST(CheckpointCrash, AVeryFirstSaveIsThereOrNot) {
  MemoryFileSystem counting;
  ASSERT_TRUE(RunGeneration(counting, 1, kNew));
  for (int k = 1; k <= counting.operations + 1; ++k) {
    SCOPED_TRACE("killed at operation " + std::to_string(k));
    MemoryFileSystem files;
    ASSERT_TRUE(files.MakeDirectory("/nowhere-ddprun"));
    ASSERT_TRUE(files.Sync("/"));
    files.operations = 0;
    files.kill_at = k;
    const bool acknowledged = RunGeneration(files, 1, kNew);
    files.Restart(PowerCut::kLosesAllUnsynced, 0);
    const std::uint64_t step = StepFound(files, 2);
    EXPECT_TRUE(step == kNew || (step == 0 && !acknowledged)) << step;
  }
}

void FailEverywhere(int error_number) {
  const MemoryFileSystem disk = DiskWithHistory();
  const int operations = OperationsOf(disk);
  int failed = 0;
  for (int k = 1; k <= operations; ++k) {
    SCOPED_TRACE("failed at operation " + std::to_string(k));
    MemoryFileSystem files = disk;
    CheckpointStore store(files, Config());
    files.operations = 0;
    files.fail_at = k;
    files.fail_with = error_number;
    if (!store.Claim(World("a", 2)) || !store.Load()) {
      continue;  // The worker ends with the error; the next generation claims.
    }
    const Result<SaveReport> report = store.Save(SnapshotAt(kNew));
    if (!report) {
      ++failed;
      EXPECT_EQ(report.error().kind, ErrorKind::kSystem) << report.error().message;
    }
    files.fail_at = 0;
    MemoryFileSystem now = files;
    const std::uint64_t step = StepFound(now, 3);
    EXPECT_TRUE(step == kNew || (step == kOld && !report)) << step;
    // Training continued; the next save works, and nothing half-done stays behind.
    ASSERT_TRUE(store.Save(SnapshotAt(60)));
    EXPECT_EQ(StepFound(files, 4), 60u);
    EXPECT_FALSE(HasLeftovers(files));
    const std::vector<std::string> names = files.List(kDirectory).value();
    EXPECT_LE(std::count_if(names.begin(), names.end(), IsCheckpointName), 3);
  }
  EXPECT_GT(failed, 15);
}

TEST(CheckpointCrash, AFullDiskAtAnyOperationCostsThatSaveOnly) {
  FailEverywhere(ENOSPC);
}

TEST(CheckpointCrash, SoDoesAnInputOutputError) {
  FailEverywhere(EIO);
}

TEST(CheckpointCrash, AndTheErrorNamesTheFileAndTheSpace) {
  MemoryFileSystem files = DiskWithHistory();
  CheckpointStore store(files, Config());
  ASSERT_TRUE(store.Claim(World("a", 2)));
  files.free_bytes = 1 << 20;
  bool once = false;
  files.before = [&](std::string_view operation, const std::filesystem::path& path) {
    if (operation == "write" && path.filename() == "model.safetensors" &&
        !std::exchange(once, true)) {
      files.fail_at = files.operations + 1;
    }
  };
  const Result<SaveReport> report = store.Save(SnapshotAt(kNew));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::HasSubstr("model.safetensors': No space left"));
  EXPECT_THAT(report.error().message, testing::HasSubstr("1048576 bytes (1.0 MB) are free"));
  EXPECT_THAT(report.error().message, testing::HasSubstr("the older checkpoints stay"));
  EXPECT_FALSE(HasLeftovers(files));
  once = false;
  files.fail_with = EIO;
  EXPECT_THAT(store.Save(SnapshotAt(kNew)).error().message,
              testing::EndsWith("model.safetensors': Input/output error"));
}

}  // namespace
}  // namespace ddprun
