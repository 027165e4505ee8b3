#include "trainer/disk/line_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/files.h"
#include "common/log.h"
#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct LineFileTest : testing::Test {
  ScratchDirectory scratch;
  const fs::path directory = scratch.path();
  const LineFileOptions options{.what = "lines", .flag = "--lines"};

  void SetUp() override { StartLog("test", LogLevel::kInfo); }
};

TEST_F(LineFileTest, AppendsToWhatIsThere) {
  const fs::path path = directory / "made" / "lines";
  for (const char* const line : {"one\n", "two\n"}) {
    LineFileOptions making = options;
    making.make_directory = true;
    Result<LineFile> file = LineFile::Open(path, making);
    ASSERT_TRUE(file);
    file->Append(line);
    file->Finish();
  }
  EXPECT_EQ(ReadFile(path, 100).value(), "one\ntwo\n");
}

TEST_F(LineFileTest, AFileThatCannotBeOpenedIsAnErrorAtOnce) {
  const fs::path path = directory / "nowhere" / "lines";
  const Result<LineFile> file = LineFile::Open(path, options);
  EXPECT_TRUE(Fails(file, "--lines"));
  EXPECT_TRUE(Fails(file, path));
}

TEST_F(LineFileTest, AWriteThatFailsIsSaidOnce) {
  Result<LineFile> file = LineFile::Open("/dev/full", options);
  ASSERT_TRUE(file);
  file->Append("one\n");
  file->Finish();
  for (const bool first : {true, false}) {
    testing::internal::CaptureStderr();
    file->Append("two\n");
    file->Finish();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("No space left on device; nothing more is written to it") != said.npos,
              first)
        << said;
    EXPECT_EQ(said.empty(), !first);
  }
}

// A writer that appends never waits, and the memory kept for the disk has an end; once it answers,
// all that was kept is written.
TEST_F(LineFileTest, LinesThatAreNotReadWaitUpToTheirLimit) {
  const fs::path path = directory / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Result<LineFile> file = LineFile::Open(path, options);
  ASSERT_TRUE(file);
  const std::string line(LineFile::kMostWaiting / 8 - 1, 'x');
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) {
    file->Append(line + "\n");
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("dropped until that changes"), std::string::npos) << said;
  const UniqueFd reader(open(path.c_str(), O_RDONLY));
  std::string got(1 << 20, '\0');
  std::size_t bytes = 0;
  while (bytes < LineFile::kMostWaiting) {
    const ssize_t some = read(reader.get(), got.data(), got.size());
    ASSERT_GT(some, 0);
    bytes += static_cast<std::size_t>(some);
  }
  testing::internal::CaptureStderr();
  file->Finish();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("2 lines of lines could not be written"),
            std::string::npos);
}

}  // namespace
}  // namespace ddprun
