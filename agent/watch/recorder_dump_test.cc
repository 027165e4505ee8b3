#include "agent/watch/recorder_dump.h"

#include <fcntl.h>
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

constexpr std::chrono::milliseconds kSoon{0};
constexpr std::chrono::seconds kLong{20};

struct RecorderDump : testing::Test {
  ScratchDirectory scratch;
  const fs::path place = scratch.path();
  RecorderNames names{(place / "fr_").native(), (place / "fr_").native()};
  fs::file_time_type since = fs::file_time_type::clock::now() - std::chrono::seconds(1);

  fs::path At(const std::string& name) const { return place / name; }
};

TEST(RecorderNames, AreTheUsersOrBesideTheNotifySocket) {
  const RecorderNames own = RecorderNamesIn({}, "/run/notify/0");
  EXPECT_EQ(own.pipe, "/run/notify/fr_");
  EXPECT_EQ(own.dump, "/run/notify/fr_");
  const RecorderNames users = RecorderNamesIn({{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/p/pipe"},
                                               {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/p/dump"}},
                                              "/run/notify/0");
  EXPECT_EQ(users.pipe, "/p/pipe");
  EXPECT_EQ(users.dump, "/p/dump");
  EXPECT_EQ(RecorderNamesIn({}, "").dump, "");
}

TEST_F(RecorderDump, OnlyAPipeThatIsReadIsAsked) {
  EXPECT_FALSE(AskForDump(names, 3));
  ASSERT_EQ(::mkfifo(At("fr_3.pipe").c_str(), 0600), 0);
  EXPECT_FALSE(AskForDump(names, 3)) << "nobody reads";
  const UniqueFd reader(::open(At("fr_3.pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(AskForDump(names, 3));
  char heard[8];
  EXPECT_EQ(::read(reader.get(), heard, sizeof heard), 1);
  std::ofstream(At("fr_4.pipe")) << "an ordinary file";
  EXPECT_FALSE(AskForDump(names, 4));
  EXPECT_EQ(*ReadFile(At("fr_4.pipe"), 100), "an ordinary file");
  fs::create_symlink(At("fr_3.pipe"), At("fr_5.pipe"));
  EXPECT_FALSE(AskForDump(names, 5));
}

TEST_F(RecorderDump, IsCopiedOnceItIsWritten) {
  std::ofstream(At("fr_3")) << "a pickle";
  ASSERT_TRUE(KeepDump(names, 3, since, kLong, At("kept")));
  EXPECT_EQ(*ReadFile(At("kept"), 100), "a pickle");
  EXPECT_EQ(fs::status(At("kept")).permissions(), fs::perms(0600));
}

TEST_F(RecorderDump, AnOldOrEmptyEntryOrNoFileIsNone) {
  const auto kept = [&](fs::file_time_type from) {
    const Result<void> result = KeepDump(names, 3, from, kSoon, At("kept"));
    EXPECT_TRUE(result || result.error().kind == ErrorKind::kNotFound) << result.error().message;
    return result.has_value();
  };
  EXPECT_FALSE(kept(since));
  std::ofstream(At("fr_3")).close();
  EXPECT_FALSE(kept(since)) << "empty";
  std::ofstream(At("fr_3")) << "of the last generation";
  EXPECT_FALSE(kept(fs::file_time_type::clock::now() + std::chrono::seconds(10)));
  fs::rename(At("fr_3"), At("elsewhere"));
  fs::create_symlink(At("elsewhere"), At("fr_3"));
  EXPECT_FALSE(kept(since)) << "a link";
  fs::remove(At("fr_3"));
  ASSERT_EQ(::mkfifo(At("fr_3").c_str(), 0600), 0);
  EXPECT_FALSE(kept(since)) << "a FIFO";
  EXPECT_FALSE(fs::exists(At("kept")));
}

TEST_F(RecorderDump, AHugeFileIsRefused) {
  std::ofstream(At("fr_3")) << "x";
  fs::resize_file(At("fr_3"), kMostDump + 1);
  EXPECT_TRUE(Fails(KeepDump(names, 3, since, kSoon, At("kept")), "larger than"));
}

}  // namespace
}  // namespace ddprun
