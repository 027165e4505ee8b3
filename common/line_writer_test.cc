#include "common/line_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "common/files.h"
#include "common/log.h"
#include "tests/support/no_more_threads.h"

namespace ddprun {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr Duration kSoon{10'000};

class LineWriterTest : public ::testing::Test {
 protected:
  LineWriterTest() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_ = UniqueFd(ends[0]);
    fd_ = UniqueFd(ends[1]);
    EXPECT_GE(::fcntl(ends[1], F_SETPIPE_SZ, kPipe), kPipe);
  }
  // The text written once the writer has nothing more to write.
  std::string ReadAll(LineWriter& writer) {
    ::fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
    std::string text;
    bool done = false;
    while (true) {
      char bytes[4096];
      const ssize_t got = ::read(reader_.get(), bytes, sizeof bytes);
      if (got > 0) {
        text.append(bytes, static_cast<std::size_t>(got));
      } else if (done || got == 0) {
        return text;
      } else {
        done = writer.Flush(Duration{1});
      }
    }
  }

  static constexpr int kPipe = 4096;
  UniqueFd reader_;
  UniqueFd fd_;
};

TEST_F(LineWriterTest, NothingIsLostWhileItIsRead) {
  LineWriter writer(fd_.get(), 1000);
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string line = std::to_string(i) + "\n";
    all += line;
    writer.Put(line);
  }
  EXPECT_TRUE(writer.Flush(kSoon));
  EXPECT_EQ(ReadAll(writer), all);
}

// The loop that writes these lines renews leases meanwhile.
TEST_F(LineWriterTest, NoCallerWaitsForAReaderThatStandsStill) {
  constexpr std::size_t kRoom = 10'000;
  LineWriter writer(fd_.get(), kRoom);
  writer.SetWording([](const std::string& text) { return "me | " + text + "\n"; });
  const std::string line = std::string(99, 'x') + "\n";
  for (int i = 0; i < 1'000; ++i) {
    writer.Put(line);
  }
  EXPECT_FALSE(writer.Flush(Duration{1}));
  std::istringstream text(ReadAll(writer));
  std::size_t kept = 0;
  std::size_t dropped = 0;
  for (std::string got; std::getline(text, got);) {
    if (got.starts_with("me | ")) {
      dropped += std::stoul(got.substr(5));
    } else {
      EXPECT_EQ(got + "\n", line);
      ++kept;
    }
  }
  EXPECT_EQ(kept + dropped, 1'000);
  EXPECT_LE(kept * line.size(), 3 * kRoom + kPipe);
  writer.Put("and on\n");
  EXPECT_EQ(ReadAll(writer), "and on\n");
}

TEST_F(LineWriterTest, WithoutAThreadTheCallerWritesWhatIsTakenAtOnce) {
  const testing::NoMoreThreads none;
  LineWriter writer(fd_.get(), 100'000);
  std::string all;
  for (int i = 0; i < 1'000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    all += line;
    writer.Put(line);
  }
  EXPECT_FALSE(writer.Flush(Duration{1}));
  EXPECT_EQ(ReadAll(writer), all);
}

TEST_F(LineWriterTest, TheLiveLineStaysBelowTheOthers) {
  LineWriter writer(fd_.get(), 1000);
  writer.SetLive("waiting");
  EXPECT_EQ(ReadAll(writer), "waiting");
  writer.Put("a line\n");
  EXPECT_EQ(ReadAll(writer), "\r\x1b[Ka line\nwaiting");
  writer.SetLive("");
  EXPECT_EQ(ReadAll(writer), "\r\x1b[K");
}

TEST_F(LineWriterTest, AReaderThatIsGoneEndsNoProcess) {
  LineWriter writer(fd_.get(), 1000);
  reader_.Reset();
  writer.Put("into the void\n");
  EXPECT_TRUE(writer.Flush(kSoon));
}

// A line of another process that writes to the same pipe never lands inside one of ours.
TEST_F(LineWriterTest, LinesStayWhole) {
  LineWriter writer(fd_.get(), 100'000);
  const std::string line = std::string(100, 'x') + "\n";
  for (int i = 0; i < 500; ++i) {
    writer.Put(line);
  }
  // The pipe's one page has taken whole lines only.
  char bytes[kPipe];
  ASSERT_GT(::read(reader_.get(), bytes, 1), 0);
  const ssize_t got = ::read(reader_.get(), bytes, sizeof bytes);
  ASSERT_GT(got, 0);
  const std::string piece(bytes, static_cast<std::size_t>(got));
  EXPECT_THAT(piece, EndsWith("x\n"));
  EXPECT_THAT(ReadAll(writer), StartsWith("xxxx"));
}

// A text may quote a peer, who would add lines of his own to a run's log.
TEST(Log, EachTextIsOneLine) {
  ::testing::internal::CaptureStderr();
  StartLog("ddprun n0", LogLevel::kInfo);
  Log(LogLevel::kInfo, "node n1 is unfit: bad\nddprun n0 | the run has ended\r\x1b[2K");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "ddprun n0 | node n1 is unfit: bad\\nddprun n0 | the run has ended\\x0d\\x1b[2K\n");
}

}  // namespace
}  // namespace ddprun
