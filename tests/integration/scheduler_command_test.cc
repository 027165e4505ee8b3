#include "launcher/slurm/scheduler_command.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/asio_loop.h"
#include "rendezvous/testing/pump.h"
#include "tests/support/marked.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""h;

class SchedulerCommandTest : public ::testing::Test {
 protected:
  // The answer of a squeue that is this shell script.
  Result<std::string> Ask(const std::string& script) {
    const fs::path program = scratch_.path() / "squeue";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    std::optional<Result<std::string>> heard;
    SchedulerCommand command(loop_, {program}, 1h,
                             [&](const Result<std::string>& printed) { heard = printed; });
    EXPECT_TRUE(PumpUntil(loop_, [&] { return heard.has_value(); })) << script;
    return heard.value_or(Error{ErrorKind::kUnavailable, "no answer"});
  }
  std::string Scratch(const char* name) const { return scratch_.path() / name; }

  AsioLoop loop_;
  ScratchDirectory scratch_;
};

// It would be held in memory, all of it.
TEST_F(SchedulerCommandTest, OutputWithoutAnEndIsRefused) {
  for (const char* stream : {"1", "2"}) {
    const Result<std::string> printed = Ask("head -c 64000000 /dev/zero >&" + std::string(stream) +
                                            " || exit 3\n: >" + Scratch("whole"));
    ASSERT_FALSE(printed) << stream;
    EXPECT_NE(printed.error().message.find("ended with exit code 3"), std::string::npos)
        << printed.error().message.substr(0, 200);
    EXPECT_FALSE(fs::exists(Scratch("whole"))) << stream;
  }
}

TEST_F(SchedulerCommandTest, SixtyThousandBytesAreNotTooMany) {
  const Result<std::string> printed = Ask("head -c 60000 /dev/zero | tr '\\0' a");
  ASSERT_TRUE(printed) << printed.error().message;
  EXPECT_EQ(*printed, std::string(60'000, 'a'));
}

// A site's own squeue may open its streams by name.
TEST_F(SchedulerCommandTest, TellsWhyItFailed) {
  const Result<std::string> printed = Ask("echo no controller >/dev/stderr; exit 3");
  ASSERT_FALSE(printed);
  EXPECT_NE(printed.error().message.find("exit code 3: no controller"), std::string::npos)
      << printed.error().message;
}

TEST_F(SchedulerCommandTest, ControlCharactersAreMadeVisible) {
  const Result<std::string> printed = Ask("printf 'a\\033[2Jb\\n'");
  ASSERT_TRUE(printed) << printed.error().message;
  EXPECT_EQ(*printed, "a\\x1b[2Jb");
}

TEST_F(SchedulerCommandTest, AProcessThatItLeavesBehindIsNotWaitedFor) {
  const Result<std::string> printed =
      Ask("sleep 1000 &\necho $! >" + Scratch("pid") + "\necho 7:00");
  pid_t left = 0;
  std::ifstream(Scratch("pid")) >> left;
  ASSERT_GT(left, 1);
  EXPECT_EQ(::kill(left, SIGKILL), 0);
  ASSERT_TRUE(printed) << printed.error().message;
  EXPECT_EQ(*printed, "7:00");
}

}  // namespace
}  // namespace ddprun
