#include "agent/watch/evidence_bundle.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "common/files.h"
#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct Bundle : testing::Test {
  ScratchDirectory scratch;
  const fs::path place = scratch.path();
};

TEST_F(Bundle, HasTheMachineTheProcessesAndWhatRanksPrinted) {
  const fs::path bundle = BundleOf(place, {7});
  const NodePart part{.node = "a/b",
                      .workers = {{3, ::getpid()}, {4, 999'999'999}},
                      .last_lines = {{3, "the last line\n"}, {4, ""}},
                      .logs = "/logs/attempt_6"};
  const Result<void> written = WriteNodePart(bundle, part);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(bundle.filename(), "evidence-7");
  EXPECT_EQ(*ReadFile(bundle / "rank-3.lines.txt", 1'000), "the last line\n");
  EXPECT_FALSE(fs::exists(bundle / "rank-4.lines.txt"));
  const std::string facts = *ReadFile(bundle / "node-a_b.txt", 100'000);
  for (const char* const known :
       {"node a/b at 20", "\nlogs: /logs/attempt_6\n", "MemTotal:", "/proc/loadavg:", " free\n",
        "rank 3 (pid ", "State:", "rank 4 (pid 999999999): gone\n"}) {
    EXPECT_NE(facts.find(known), std::string::npos) << known << " in\n" << facts;
  }
}

TEST_F(Bundle, IsTheUsersAlone) {
  const fs::path bundle = BundleOf(place, {7});
  ASSERT_TRUE(WriteNodePart(bundle, {"n", {}, {{0, "a secret"}}}));
  struct stat found {};
  ASSERT_EQ(::stat(bundle.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((bundle / "rank-0.lines.txt").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

// A run that fails for ever fills no disk, and the first ones tell why.
TEST_F(Bundle, OnlySoManyAreKept) {
  for (std::uint64_t generation = 1; generation <= kMostBundles; ++generation) {
    ASSERT_TRUE(MakeBundle(BundleOf(place, {generation})));
  }
  EXPECT_TRUE(Fails(MakeBundle(BundleOf(place, {kMostBundles + 1})), ErrorKind::kRefused));
  EXPECT_TRUE(MakeBundle(BundleOf(place, {3}))) << "one that is there";
}

// Another user's file, or a link that leads elsewhere, is no directory for it.
TEST_F(Bundle, AnotherEntryThanADirectoryIsNotFollowed) {
  const fs::path elsewhere = place / "elsewhere";
  fs::create_directories(elsewhere);
  fs::create_directory_symlink(elsewhere, BundleOf(place, {1}));
  std::ofstream(BundleOf(place, {2})) << "a file";
  for (const std::uint64_t generation : {1u, 2u}) {
    EXPECT_FALSE(WriteNodePart(BundleOf(place, {generation}), {"n", {}, {{0, "x"}}}));
  }
  EXPECT_TRUE(fs::is_empty(elsewhere));
}

}  // namespace
}  // namespace ddprun
