#include "launcher/command_line/given_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "common/files.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GivenFile : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::mkfifo(fifo_.c_str(), 0600), 0); }

  Result<std::string> Read(const std::string& path, std::size_t most = 100) {
    return ReadGiven(path, most, patience_);
  }
  std::string Refusal(const std::string& path, std::size_t most = 100) {
    const Result<std::string> read = Read(path, most);
    return read ? "" : read.error().message;
  }

  ScratchDirectory directory_;
  const std::filesystem::path scratch_ = directory_.path();
  const std::string fifo_ = scratch_ / "fifo";
  std::vector<std::string> said_;
  GivenPatience patience_{.named = 60'000ms,
                          .say = [this](const std::string& text) { said_.push_back(text); }};
};

TEST_F(GivenFile, AFileIsReadAtOnce) {
  std::ofstream(scratch_ / "file") << "nnodes = 2\n";
  EXPECT_EQ(*Read(scratch_ / "file"), "nnodes = 2\n");
  EXPECT_EQ(*Read("/dev/null"), "");
  EXPECT_THAT(Refusal(scratch_ / "none"), HasSubstr("No such file"));
  EXPECT_NE(Refusal(scratch_), "");
}

TEST_F(GivenFile, AFifoIsReadToItsWritersEnd) {
  std::thread writer([this] { std::ofstream(fifo_) << "nnodes = " << std::flush << "2\n"; });
  EXPECT_EQ(*Read(fifo_), "nnodes = 2\n");
  writer.join();
  EXPECT_THAT(said_, IsEmpty());
}

// A shell's <(...): the command in it may have ended before it is read.
TEST_F(GivenFile, APipeWhoseWriterHasGoneIsRead) {
  for (const std::string text : {"nnodes = 2\n", ""}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    {
      const UniqueFd writer(ends[1]);
      ASSERT_TRUE(WriteAll(writer.get(), text, "pipe"));
    }
    EXPECT_EQ(*Read("/dev/fd/" + std::to_string(reader.get())), text);
  }
}

// No process will ever write, and people must not look at an empty screen.
TEST_F(GivenFile, AFifoWithoutAWriterIsNamedAndThenRefused) {
  patience_.named = 1ms;
  patience_.limit = 20ms;
  EXPECT_THAT(Refusal(fifo_), AllOf(HasSubstr("cannot read '" + fifo_ + "'"),
                                    HasSubstr("has written nothing within 20 ms")));
  EXPECT_THAT(said_, ElementsAre("waiting for the writer of '" + fifo_ +
                                 "', which is not a file, 20 ms at most"));
}

TEST_F(GivenFile, AWriterThatNeverEndsIsRefused) {
  patience_.limit = 20ms;
  const UniqueFd writer(::open(fifo_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(WriteAll(writer.get(), "nnodes", fifo_));
  EXPECT_THAT(Refusal(fifo_), HasSubstr("has not closed it within 20 ms"));
  EXPECT_THAT(Refusal("/dev/zero"), HasSubstr("more than 100 bytes in: '/dev/zero'"));
}

}  // namespace
}  // namespace ddprun
