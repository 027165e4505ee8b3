// Foreign entries in a checkpoint directory: refused or passed over, never waited for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/support/scratch_directory.h"
#include "trainer/checkpoint/checkpoint_testing.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class CheckpointHostile : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path();
  std::string newest_;

  // Steps 1 and 2: a claim, two commits, a close.
  void SetUp() override {
    CheckpointStore store(RealFileSystem(), ConfigFor(directory_));
    ASSERT_TRUE(store.Claim(World("a", 1)));
    ASSERT_TRUE(store.Save(SnapshotAt(1)));
    newest_ = store.Save(SnapshotAt(2))->ref.directory;
    ASSERT_TRUE(store.Close());
    ASSERT_TRUE(fs::exists(directory_ / "fence-4"));
  }

  void PutFifo(const fs::path& name) {
    fs::remove(directory_ / name);
    ASSERT_EQ(::mkfifo((directory_ / name).c_str(), 0600), 0);
  }
  // The step that the next generation continues from, and whether it can save.
  std::uint64_t GoOn() {
    CheckpointStore store(RealFileSystem(), ConfigFor(directory_));
    const auto claimed = store.Claim(World("a", 2));
    EXPECT_TRUE(claimed) << claimed.error().message;
    const Result<LoadOutcome> outcome = store.Load();
    EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(store.Save(SnapshotAt(10)));
    return outcome && outcome->checkpoint ? outcome->checkpoint->snapshot.state.step : 0;
  }
};

TEST_F(CheckpointHostile, AFifoAsTheNextRecordOrAsBestJsonIsPassedOver) {
  PutFifo("fence-5");
  PutFifo("best.json");
  EXPECT_EQ(GoOn(), 2u);
}

TEST_F(CheckpointHostile, AFifoAsTheStateOfACheckpointMakesItBroken) {
  PutFifo(fs::path(newest_) / "state.json");
  EXPECT_EQ(GoOn(), 1u);
}

TEST_F(CheckpointHostile, SoDoesOneAsItsParameters) {
  PutFifo(fs::path(newest_) / "model.safetensors");
  EXPECT_EQ(GoOn(), 1u);
}

TEST_F(CheckpointHostile, LinksAreFollowed) {
  const fs::path file = directory_ / newest_ / "model.safetensors";
  fs::rename(file, directory_ / "elsewhere");
  fs::create_symlink(directory_ / "elsewhere", file);
  EXPECT_EQ(GoOn(), 2u);
}

// One that lies about its size on disk would take all memory of the machine.
TEST_F(CheckpointHostile, AFileLargerThanTheMemoryIsNotRead) {
  const fs::path file = directory_ / "large";
  std::ofstream(file) << "{}";
  const auto memory = static_cast<off_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (::truncate(file.c_str(), memory + (off_t{1} << 20)) != 0) {
    GTEST_SKIP() << "this file system has no files as large as the memory";
  }
  const Result<DigestedBytes> read = RealFileSystem().ReadDigested(file, SIZE_MAX / 2);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, testing::HasSubstr("larger than this machine's memory"));
}

// A record that was linked, though its writer heard otherwise and could not remove the name beside
// it, is the record: trying again must not write into it.
TEST_F(CheckpointHostile, ALinkedFileIsNotWrittenAnew) {
  FileSystem& files = RealFileSystem();
  ASSERT_TRUE(files.Write(directory_ / "beside", {"a record"}));
  ASSERT_TRUE(files.Link(directory_ / "beside", directory_ / "fence-9").value());
  ASSERT_TRUE(files.Write(directory_ / "beside", {"another"}));
  EXPECT_EQ(files.Read(directory_ / "fence-9", 100).value(), "a record");
  EXPECT_EQ(files.Read(directory_ / "beside", 100).value(), "another");
}

}  // namespace
}  // namespace ddprun
