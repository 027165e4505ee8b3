#include "launcher/run_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <future>

#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class OwnDirectory : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  const fs::path place_ = scratch_.path();
  const fs::path parent_ = place_ / ".ddprun";
  const fs::path own_ = parent_ / "7.0.0";
};

TEST_F(OwnDirectory, IsMadeAndGoesWithItsParent) {
  ASSERT_TRUE(MakeOwnDirectory(own_));
  ASSERT_TRUE(MakeOwnDirectory(own_));  // Another node of the run.
  EXPECT_TRUE(fs::is_empty(own_));
  fs::create_directory(own_ / "evidence-1");
  RemoveOwnDirectory(own_);
  EXPECT_TRUE(fs::is_empty(place_));
}

TEST_F(OwnDirectory, OfAnotherRunStays) {
  ASSERT_TRUE(MakeOwnDirectory(own_));
  ASSERT_TRUE(MakeOwnDirectory(parent_ / "8.0.0"));
  RemoveOwnDirectory(own_);
  EXPECT_TRUE(fs::is_directory(parent_ / "8.0.0"));
  EXPECT_FALSE(fs::exists(own_));
}

TEST_F(OwnDirectory, IsNotMadeBehindALink) {
  fs::create_directory(place_ / "theirs");
  fs::create_directory_symlink("theirs", parent_);
  EXPECT_FALSE(MakeOwnDirectory(own_));
  EXPECT_TRUE(fs::is_empty(place_ / "theirs"));
}

// As on a full disk.
TEST_F(OwnDirectory, IsRefusedWhereNoFileCanBeWritten) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const Result<void> made = MakeOwnDirectory(own_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(made);
  EXPECT_TRUE(fs::is_empty(place_)) << "nothing is left behind";
}

TEST_F(OwnDirectory, IsMadeWhileOtherRunsEnd) {
  const auto make_and_remove = [](const fs::path& directory) {
    int failed = 0;
    for (int i = 0; i < 300; ++i) {
      failed += MakeOwnDirectory(directory) ? 0 : 1;
      RemoveOwnDirectory(directory);
    }
    return failed;
  };
  std::future<int> other = std::async(std::launch::async, make_and_remove, parent_ / "8.0.0");
  EXPECT_EQ(make_and_remove(own_), 0);
  EXPECT_EQ(other.get(), 0);
}

}  // namespace
}  // namespace ddprun
