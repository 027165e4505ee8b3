#include "trainer/extras/staging.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class Staging : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "source/inner");
    Write("source/a", "first");
    Write("source/inner/b", "second");
    plan_ = {.source = root_ / "source",
             .files = {"a", "inner/b"},
             .directory = root_ / "local/disk",
             .name = "numbers"};
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  static std::string Read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Result<fs::path> Copy() {
    return Stage(plan_, true, [this](const std::string& text) { said_ += text + "\n"; });
  }

  ScratchDirectory scratch_;
  const fs::path root_ = scratch_.path();
  StagePlan plan_;
  std::string said_;
};

TEST_F(Staging, CopiesOnceAndAgainWhenTheOriginalsChange) {
  const Result<fs::path> first = Copy();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(Read(*first / "inner/b"), "second");
  EXPECT_NE(said_.find("copying numbers"), std::string::npos);
  said_.clear();
  EXPECT_EQ(*Copy(), *first);
  EXPECT_EQ(said_, "");
  Write("source/a", "another first");
  const Result<fs::path> second = Copy();
  EXPECT_NE(*second, *first);
  EXPECT_EQ(Read(*second / "a"), "another first");
}

// As after a power cut: the name was on disk, and what was in it not yet.
TEST_F(Staging, ACopyThatLostItsBytesIsMadeAfresh) {
  const fs::path staged = *Copy();
  fs::resize_file(staged / "inner/b", 0);
  said_.clear();
  EXPECT_EQ(*Copy(), staged);
  EXPECT_NE(said_.find("copying numbers"), std::string::npos);
  EXPECT_EQ(Read(staged / "inner/b"), "second");
  fs::remove(staged / "a");
  EXPECT_EQ(*Copy(), staged);
  EXPECT_EQ(Read(staged / "a"), "first");
}

// A user who can write there chooses what is trained on.
TEST_F(Staging, ADirectoryOfOthersIsRefused) {
  fs::create_directories(plan_.directory);
  fs::permissions(plan_.directory, fs::perms::all);
  EXPECT_TRUE(Fails(Copy(), "may be written to by other users"));
  fs::permissions(plan_.directory, fs::perms::owner_all);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(plan_.directory.c_str(), 65534, 65534), 0);
    EXPECT_TRUE(Fails(Copy(), "belongs to another user (uid 65534)"));
  }
}

TEST_F(Staging, ACopyOfOthersIsRefusedByARankThatWaitsForIt) {
  const Result<fs::path> copy = Copy();
  ASSERT_TRUE(copy);
  fs::permissions(*copy, fs::perms::all);
  EXPECT_FALSE(Copy());
  EXPECT_FALSE(Stage(plan_, false, [](const std::string&) {}));
}

TEST_F(Staging, ALeftoverOfACrashIsReplaced) {
  const std::string name = Copy()->filename();
  const fs::path part = plan_.directory / (".part-" + name);
  fs::rename(plan_.directory / name, part);
  std::ofstream(part / "a", std::ios::trunc) << "fi";
  const Result<fs::path> again = Copy();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(Read(*again / "a"), "first");
  EXPECT_FALSE(fs::exists(part));
}

// The others see nothing or everything.
TEST_F(Staging, TheOthersWaitForTheWhole) {
  std::vector<std::string> seen(3);
  std::atomic<int> waiting = 0;
  std::vector<std::thread> others;
  for (std::string& what : seen) {
    others.emplace_back([&] {
      const auto staged =
          Stage(plan_, false, [&](const std::string& text) { waiting += text.find("wait") == 0; });
      what = staged ? Read(*staged / "a") + Read(*staged / "inner/b") : staged.error().message;
    });
  }
  while (waiting < 3) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(Copy());
  for (std::thread& other : others) {
    other.join();
  }
  EXPECT_EQ(seen, std::vector<std::string>(3, "firstsecond"));
}

TEST_F(Staging, NamesAFileThatIsNotThere) {
  plan_.files.push_back("c");
  EXPECT_TRUE(Fails(Copy(), "source/c"));
}

}  // namespace
}  // namespace ddprun
