#include "common/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "common/time.h"

namespace ddprun {
namespace {

struct Files : testing::Test {
  Files() {
    std::string pattern = testing::TempDir() + "files_XXXXXX";
    dir = ::mkdtemp(pattern.data());
  }
  ~Files() override { std::filesystem::remove_all(dir); }
  std::filesystem::path dir;
};

TEST_F(Files, ReadsUpToTheBoundAndNoFurther) {
  std::ofstream(dir / "a") << "hello";
  EXPECT_EQ(*ReadFile(dir / "a", 5), "hello");
  EXPECT_EQ(ReadFile(dir / "a", 4).error().kind, ErrorKind::kInvalid);
  const Result<std::string> missing = ReadFile(dir / "b", 5);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(missing.error().message.find((dir / "b").native()), std::string::npos);
}

TEST_F(Files, MakesDirectoriesButNotThroughFiles) {
  EXPECT_TRUE(MakeDirectories(dir / "x/y/z", 0700));
  EXPECT_TRUE(MakeDirectories(dir / "x/y/z", 0700));
  std::ofstream(dir / "file") << "1";
  EXPECT_FALSE(MakeDirectories(dir / "file", 0700));
  EXPECT_FALSE(MakeDirectories(dir / "file/below", 0700));
}

TEST_F(Files, AFullDeviceIsAnErrorThatNamesTheFile) {
  const UniqueFd full(::open("/dev/full", O_WRONLY));
  const Result<void> written = WriteAll(full.get(), "x", "the name");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("the name"), std::string::npos);
  EXPECT_NE(written.error().message.find("No space left"), std::string::npos);
}

TEST(FormatDuration, IsForPeople) {
  using namespace std::chrono_literals;
  EXPECT_EQ(FormatDuration(350ms), "350 ms");
  EXPECT_EQ(FormatDuration(2s), "2.0 s");
  EXPECT_EQ(FormatDuration(250s), "4 min 10 s");
  EXPECT_EQ(FormatDuration(3700s), "1 h 01 min");
}

}  // namespace
}  // namespace ddprun
