#include "trainer/checkpoint/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"
#include "trainer/checkpoint/checkpoint_testing.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// This path does not exist on the real disk. Only fence-alive bypasses the file system in memory,
// and these tests never reach it.
constexpr const char* kDirectory = "/nowhere-ddprun/ckpt";

std::filesystem::path PathOf(const CheckpointRef& ref) {
  return std::filesystem::path(kDirectory) / ref.directory;
}

void ExpectSame(const Snapshot& loaded, const Snapshot& saved) {
  EXPECT_EQ(loaded.model, saved.model);
  EXPECT_EQ(loaded.optimizer, saved.optimizer);
  EXPECT_EQ(loaded.state.step, saved.state.step);
  EXPECT_EQ(loaded.state.samples_in_epoch, saved.state.samples_in_epoch);
  EXPECT_EQ(loaded.state.buckets, saved.state.buckets);
}

class CheckpointStoreTest : public testing::Test {
 protected:
  void SetUp() override { Start(1); }
  // A new process of run "a".
  CheckpointStore& Start(std::uint64_t generation) { return Start(World("a", generation)); }
  CheckpointStore& Start(const Writer& writer) {
    store_.emplace(files_, config_);
    const auto claimed = store_->Claim(writer);
    EXPECT_TRUE(claimed) << claimed.error().message;
    return *store_;
  }
  CheckpointRef Save(std::uint64_t step) {
    const Result<SaveReport> report = store_->Save(SnapshotAt(step));
    EXPECT_TRUE(report) << report.error().message;
    return report ? report->ref : CheckpointRef{};
  }
  std::vector<std::string> Checkpoints() {
    std::vector<std::string> names = files_.List(kDirectory).value();
    std::erase_if(names, [](const std::string& name) { return name.starts_with("fence-"); });
    return names;
  }

  MemoryFileSystem files_;
  CheckpointConfig config_ = ConfigFor(kDirectory);
  std::optional<CheckpointStore> store_;
};

TEST_F(CheckpointStoreTest, GivesBackWhatWasSaved) {
  Save(100);
  const CheckpointRef ref = Save(200);
  EXPECT_EQ(ref.directory, "step-00000200-" + Hex(0xabc001));
  const Result<LoadOutcome> outcome = Start(2).Load();
  ASSERT_TRUE(outcome && outcome->checkpoint);
  ExpectSame(outcome->checkpoint->snapshot, SnapshotAt(200));
  EXPECT_EQ(outcome->checkpoint->ref, ref);
  const TrainState& state = outcome->checkpoint->snapshot.state;
  EXPECT_EQ(state.parent, "step-00000100-" + Hex(0xabc001));
  EXPECT_EQ(state.run_id, "a");
  EXPECT_EQ(state.generation, Generation{1});
  EXPECT_GT(state.total_bytes, ByteCount(SnapshotAt(200)));
  EXPECT_THAT(outcome->warnings, IsEmpty());
  // Other ranks load the checkpoint that rank 0 names.
  CheckpointStore other(files_, config_);
  ExpectSame(other.LoadExactly(ref)->snapshot, SnapshotAt(200));
  EXPECT_FALSE(other.LoadExactly({ref.directory, ref.digest + 1}));
}

TEST_F(CheckpointStoreTest, AFlippedByteAnywhereFallsBackToTheParentWithAWarning) {
  Save(100);
  const CheckpointRef newest = Save(200);
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "rank-states.safetensors", "state.json"}) {
    const std::filesystem::path path = PathOf(newest) / name;
    for (const std::size_t index :
         {std::size_t{0}, files_.SizeOf(path) / 2, files_.SizeOf(path) - 1}) {
      files_.Flip(path, index);
      CheckpointStore store(files_, config_);
      static std::uint64_t generation = 2;
      ASSERT_TRUE(store.Claim(World("a", generation++)));
      const Result<LoadOutcome> outcome = store.Load();
      ASSERT_TRUE(outcome && outcome->checkpoint) << path << " " << index;
      EXPECT_EQ(outcome->checkpoint->snapshot.state.step, 100u);
      ASSERT_EQ(outcome->warnings.size(), 1u);
      EXPECT_THAT(outcome->warnings[0], HasSubstr(path.native()));
      EXPECT_THAT(outcome->warnings[0], HasSubstr("continuing from 'step-00000100-"));
      files_.Flip(path, index);
    }
  }
}

TEST_F(CheckpointStoreTest, AMissingOrCutFileFallsBackToo) {
  Save(100);
  const CheckpointRef newest = Save(200);
  MemoryFileSystem before = files_;
  ASSERT_TRUE(files_.Remove(PathOf(newest) / "model.safetensors"));
  EXPECT_EQ(Start(2).Load()->checkpoint->snapshot.state.step, 100u);
  files_ = before;
  ASSERT_TRUE(files_.Remove(PathOf(newest)));
  EXPECT_EQ(Start(2).Load()->checkpoint->snapshot.state.step, 100u);
  files_ = before;
  ASSERT_TRUE(files_.Write(PathOf(newest) / "model.safetensors", {"short"}));
  EXPECT_EQ(Start(2).Load()->checkpoint->snapshot.state.step, 100u);
}

TEST_F(CheckpointStoreTest, AReadErrorThatPassesCostsNoStep) {
  Save(100);
  Save(200);
  Start(2);
  files_.operations = 0;
  files_.fail_at = 2;
  files_.fail_with = EIO;
  const Result<LoadOutcome> outcome = store_->Load();
  EXPECT_EQ(outcome->checkpoint->snapshot.state.step, 200u);
  EXPECT_THAT(outcome->warnings, IsEmpty());
}

// After a fallback the broken head is no ancestor: the lineage continues from the loaded one.
TEST_F(CheckpointStoreTest, ASaveAfterAFallbackDescendsFromWhatWasLoaded) {
  const CheckpointRef good = Save(100);
  const CheckpointRef broken = Save(200);
  files_.Flip(PathOf(broken) / "state.json", 5);
  ASSERT_TRUE(Start(2).Load());
  const CheckpointRef next = Save(150);
  const Result<LoadOutcome> outcome = Start(3).Load();
  EXPECT_EQ(outcome->checkpoint->ref, next);
  EXPECT_EQ(outcome->checkpoint->snapshot.state.parent, good.directory);
  EXPECT_TRUE(files_.Exists(PathOf(broken))) << "evidence stays";
}

TEST_F(CheckpointStoreTest, NothingButBrokenCheckpointsIsAnErrorThatNamesThem) {
  const CheckpointRef first = Save(100);
  const CheckpointRef second = Save(200);
  files_.Flip(PathOf(first) / "model.safetensors", 5);
  files_.Flip(PathOf(second) / "state.json", 5);
  const Result<LoadOutcome> outcome = Start(2).Load();
  EXPECT_TRUE(Fails(outcome, ErrorKind::kInvalid, first.directory));
  EXPECT_TRUE(Fails(outcome, second.directory));
  EXPECT_TRUE(Fails(outcome, "another directory to start afresh"));
}

TEST_F(CheckpointStoreTest, AnotherModelIsAnErrorThatNamesBothAndDeletesNothing) {
  const CheckpointRef ref = Save(100);
  config_.model = "resnet";
  const Result<LoadOutcome> outcome = Start(2).Load();
  EXPECT_TRUE(Fails(outcome, "is of model 'mlp', this program trains 'resnet':"));
  EXPECT_TRUE(files_.Exists(PathOf(ref)));
  config_ = ConfigFor(kDirectory);
  EXPECT_TRUE(Start(3).Load()->checkpoint);
}

// A model may have hundreds of tensors.
TEST_F(CheckpointStoreTest, AnotherModelIsNamedByItsFirstTensorsThatDiffer) {
  Snapshot saved = SnapshotAt(100);
  saved.state.model_description = "a[1] b[1] c[1] d[1] e[1] f[1]";
  ASSERT_TRUE(store_->Save(saved));
  const auto starts_with = [this](std::uint64_t generation, const std::string& description) {
    config_.model_description = description;
    return Start(generation).Load();
  };
  EXPECT_TRUE(Fails(starts_with(2, "a[1] b[2] c[1] d[1] e[1] f[1]"),
                    "is of model 'mlp' (b[1]), this program trains 'mlp' (b[2]):"));
  EXPECT_TRUE(Fails(starts_with(3, "a[1] b[1] c[2] d[2] e[2] f[2]"),
                    "'mlp' (c[1] d[1] e[1] and 1 more), this program trains 'mlp' (c[2] d[2] e[2] "
                    "and 1 more):"));
  EXPECT_TRUE(Fails(starts_with(4, "a[1] b[1] c[1] d[1] e[1]"),
                    "'mlp' (f[1]), this program trains 'mlp':"));
  EXPECT_TRUE(starts_with(5, "b[1] a[1] c[1] d[1] e[1] f[1]")->checkpoint) << "only the order";
}

// The newer world may be loading a checkpoint that would be removed.
TEST_F(CheckpointStoreTest, NothingIsPrunedOnceANewerWorldHasClaimed) {
  for (std::uint64_t step = 1; step <= 3; ++step) {
    Save(step);
  }
  CheckpointStore newer(files_, config_);
  files_.before = [&](std::string_view operation, const std::filesystem::path& path) {
    const bool committed = operation == "remove" && path.filename().native().ends_with("-5");
    if (committed) {
      ASSERT_TRUE(newer.Claim(World("a", 2)));
    }
  };
  Save(4);
  EXPECT_EQ(Checkpoints().size(), 4u);
  EXPECT_EQ(newer.Load()->checkpoint->snapshot.state.step, 4u);
}

TEST_F(CheckpointStoreTest, TheFenceStopsAReplacedWorldBeforeItWrites) {
  Save(100);
  CheckpointStore newer(files_, config_);
  ASSERT_TRUE(newer.Claim(World("a", 2)));
  EXPECT_TRUE(Fails(store_->Save(SnapshotAt(999)), ErrorKind::kRefused));
  EXPECT_EQ(store_->CheckFence().error().kind, ErrorKind::kRefused);
  EXPECT_EQ(Checkpoints().size(), 1u);
  EXPECT_TRUE(newer.CheckFence());
}

TEST_F(CheckpointStoreTest, UncommittedCheckpointsAreNamedWhenStartingAfresh) {
  const CheckpointRef ref = Save(100);
  for (const char* record : {"fence-1", "fence-2"}) {
    ASSERT_TRUE(files_.Remove(std::filesystem::path(kDirectory) / record));
  }
  const Result<LoadOutcome> outcome = Start(1).Load();
  EXPECT_FALSE(outcome->checkpoint);
  ASSERT_EQ(outcome->warnings.size(), 1u);
  EXPECT_THAT(outcome->warnings[0], HasSubstr(ref.directory));
}

TEST_F(CheckpointStoreTest, TheSameStepTwiceIsTwoCheckpoints) {
  Save(100);
  Snapshot last = SnapshotAt(100);
  last.state.finished = true;
  ASSERT_TRUE(store_->Save(last));
  const Result<LoadOutcome> outcome = Start(2).Load();
  EXPECT_TRUE(outcome->checkpoint->snapshot.state.finished);
  EXPECT_EQ(outcome->checkpoint->ref.directory, "step-00000100-" + Hex(0xabc001) + ".2");
}

// The link was made, but the fsync after it failed: Save reports that, and it is the head anyway.
TEST_F(CheckpointStoreTest, ACommitWhoseAnswerGotLostIsTheNextOnesParent) {
  Save(100);
  bool linked = false;
  files_.before = [&](std::string_view operation, const std::filesystem::path& path) {
    linked = linked || (operation == "link" && path.filename() == "fence-3");
    if (linked && operation == "sync" && path == kDirectory) {
      linked = false;
      files_.fail_at = files_.operations + 1;
    }
  };
  EXPECT_EQ(store_->Save(SnapshotAt(200)).error().kind, ErrorKind::kSystem);
  files_.before = nullptr;
  Save(300);
  const Result<LoadOutcome> outcome = Start(2).Load();
  EXPECT_EQ(outcome->checkpoint->snapshot.state.step, 300u);
  EXPECT_EQ(outcome->checkpoint->snapshot.state.parent, "step-00000200-" + Hex(0xabc001));
  EXPECT_EQ(Checkpoints().size(), 3u);
}

TEST_F(CheckpointStoreTest, TooLittleSpaceIsSaidInBytesBeforeAnythingIsWritten) {
  const CheckpointRef ref = Save(100);
  files_.free_bytes = 1000;
  const Result<SaveReport> report = store_->Save(SnapshotAt(200));
  EXPECT_TRUE(Fails(report, ErrorKind::kSystem, "1000 bytes"));
  EXPECT_TRUE(Fails(report, "needs"));
  EXPECT_TRUE(Fails(report, "and a margin of 65536 bytes"));
  EXPECT_TRUE(Fails(report, "the older checkpoints stay"));
  EXPECT_TRUE(Fails(report, kDirectory));
  EXPECT_THAT(Checkpoints(), ElementsAre(ref.directory));
  files_.free_bytes = 1 << 30;
  Save(200);
}

TEST_F(CheckpointStoreTest, TooLittleSpaceForTheFirstOneLeavesNone) {
  files_.free_bytes = 1000;
  const Result<SaveReport> report = store_->Save(SnapshotAt(200));
  EXPECT_TRUE(Fails(report, "this training has no older checkpoint)"));
  EXPECT_THAT(report.error().message, Not(HasSubstr("stay")));
}

class RealCheckpointTest : public testing::Test {
 protected:
  RealCheckpointTest() : config_(ConfigFor(scratch_.path() / "a/b")) {
    config_.alive.wait = [](std::chrono::milliseconds) {};
  }
  ScratchDirectory scratch_;
  CheckpointConfig config_;
};

TEST_F(RealCheckpointTest, AnotherRunIsRefusedWhileTheFirstLivesAndNotAfter) {
  std::optional<CheckpointStore> first(std::in_place, RealFileSystem(), config_);
  ASSERT_TRUE(first->Claim(World("a", 1)));
  ASSERT_TRUE(first->Save(SnapshotAt(1)));
  CheckpointStore second(RealFileSystem(), config_);
  EXPECT_TRUE(Fails(second.Claim(World("b", 1)), ErrorKind::kRefused, "in use by run 'a'"));
  ASSERT_TRUE(first->Save(SnapshotAt(2)));
  first.reset();  // Dies without closing: the kernel drops its lock.
  ASSERT_TRUE(second.Claim(World("b", 1)));
  ExpectSame(second.Load()->checkpoint->snapshot, SnapshotAt(2));
}

// Plain torchrun and single processes have the same run id and generation each time.
TEST_F(RealCheckpointTest, WorldsWithoutAnOrderFollowEachOther) {
  const auto torchrun = [] { return MakeWriter("none", Term{}, Generation{1}, WorldId{}); };
  std::optional<CheckpointStore> first(std::in_place, RealFileSystem(), config_);
  ASSERT_TRUE(first->Claim(torchrun()));
  ASSERT_TRUE(first->Save(SnapshotAt(1)));
  // While the killed worker still disappears, its successor waits.
  CheckpointConfig patient = config_;
  int waits = 0;
  patient.alive.wait = [&](std::chrono::milliseconds) {
    if (++waits == 3) {
      first.reset();
    }
  };
  CheckpointStore second(RealFileSystem(), patient);
  ASSERT_TRUE(second.Claim(torchrun()));
  EXPECT_EQ(waits, 3);
  ExpectSame(second.Load()->checkpoint->snapshot, SnapshotAt(1));
  // It does not wait for ever for a holder that lives.
  CheckpointStore third(RealFileSystem(), config_);
  EXPECT_EQ(third.Claim(torchrun()).error().kind, ErrorKind::kRefused);
}

}  // namespace
}  // namespace ddprun
