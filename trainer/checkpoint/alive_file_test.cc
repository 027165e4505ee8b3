#include "trainer/checkpoint/alive_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"
#include "trainer/checkpoint/checkpoint_testing.h"

namespace ddprun {
namespace {

class AliveFileTest : public testing::Test {
 protected:
  // Waiting moves `moving`, if any: no test sleeps.
  AliveFile Make(bool use_locks, const std::string& host, AliveFile* moving) {
    AliveOptions options;
    options.use_locks = use_locks;
    options.host = host;
    options.wait = [this, moving](std::chrono::milliseconds) {
      ++waits_;
      if (moving != nullptr) {
        moving->Move();
      }
    };
    return AliveFile(directory_, options);
  }

  ScratchDirectory scratch_;
  const std::string directory_ = scratch_.path();
  int waits_ = 0;
};

TEST_F(AliveFileTest, ANewDirectoryHasNoHolder) {
  EXPECT_FALSE(Make(true, "here", nullptr).OthersLive().value());
  EXPECT_FALSE(Make(false, "here", nullptr).OthersLive().value());
  EXPECT_EQ(waits_, 0);
}

TEST_F(AliveFileTest, AHeldLockMeansAliveAndAReleasedOneDead) {
  AliveFile holder = Make(true, "here", nullptr);
  holder.Hold(World("a", 1));
  EXPECT_TRUE(Make(true, "here", nullptr).OthersLive().value());
  holder.Release();
  EXPECT_FALSE(Make(true, "here", nullptr).OthersLive().value());
  EXPECT_EQ(waits_, 0) << "on one machine the lock alone tells";
}

TEST_F(AliveFileTest, GenerationsOfOneRunHoldItTogether) {
  AliveFile first = Make(true, "here", nullptr);
  AliveFile second = Make(true, "here", nullptr);
  first.Hold(World("a", 1));
  second.Hold(World("a", 2));
  first.Release();
  EXPECT_TRUE(Make(true, "here", nullptr).OthersLive().value());
  second.Release();
  EXPECT_FALSE(Make(true, "here", nullptr).OthersLive().value());
}

// Two newcomers must not both take a dead run's place for free: the second sees the first.
TEST_F(AliveFileTest, TheProcessThatFoundItFreeKeepsTheLock) {
  AliveFile first = Make(true, "here", nullptr);
  EXPECT_FALSE(first.OthersLive().value());
  EXPECT_TRUE(Make(true, "here", nullptr).OthersLive().value());
}

TEST_F(AliveFileTest, WithoutLocksAMovingCounterMeansAlive) {
  AliveFile holder = Make(false, "here", nullptr);
  holder.Hold(World("a", 1));
  EXPECT_TRUE(Make(false, "here", &holder).OthersLive().value());
  EXPECT_FALSE(Make(false, "here", nullptr).OthersLive().value());
  EXPECT_GE(waits_, 10) << "a standing counter is watched for the whole time";
}

// Locks may not reach another machine, even where taking one succeeds.
TEST_F(AliveFileTest, AFreeLockIsNotBelievedAboutAnotherMachine) {
  AliveFile holder = Make(false, "there", nullptr);
  holder.Hold(World("a", 1));
  EXPECT_TRUE(Make(true, "here", &holder).OthersLive().value());
  EXPECT_FALSE(Make(true, "here", nullptr).OthersLive().value());
}

TEST_F(AliveFileTest, AFileBehindALinkIsNotWritten) {
  const auto elsewhere = std::filesystem::path(directory_) / "elsewhere";
  std::ofstream(elsewhere) << "a letter";
  std::filesystem::create_symlink(elsewhere, std::filesystem::path(directory_) / "fence-alive");
  AliveFile alive = Make(true, "here", nullptr);
  EXPECT_TRUE(Fails(alive.OthersLive(), "fence-alive"));
  alive.Hold(World("a", 1));
  EXPECT_EQ(std::filesystem::file_size(elsewhere), 8u);
}

// Someone cleaned up: the holder makes the file anew instead of moving a counter that no reader
// sees.
TEST_F(AliveFileTest, ARemovedFileIsMadeAgain) {
  AliveFile holder = Make(true, "here", nullptr);
  holder.Hold(World("a", 1));
  std::filesystem::remove(directory_ + "/fence-alive");
  holder.Move();
  EXPECT_TRUE(Make(true, "here", nullptr).OthersLive().value());
}

}  // namespace
}  // namespace ddprun
