#include "common/exit_status.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ddprun {
namespace {

// Exit code 11 and a death by SIGSEGV (11) are different news.
TEST(ExitStatus, ElevenIsNotSegmentationFault) {
  EXPECT_NE(ExitStatus(Exited{11}), ExitStatus(Killed{SIGSEGV}));
  EXPECT_EQ(Describe(Exited{11}), "exit code 11");
  EXPECT_EQ(Describe(Killed{SIGSEGV}), "killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(Describe(Killed{SIGSEGV, true}), "killed by signal 11 (SIGSEGV, core dumped)");
}

TEST(ExitStatus, ShellCodeIsWhatAShellWouldSay) {
  EXPECT_EQ(ShellCode(Exited{3}), 3);
  EXPECT_EQ(ShellCode(Killed{SIGKILL}), 137);
}

TEST(ExitStatus, OnlyExitCodeZeroIsSuccess) {
  EXPECT_TRUE(Succeeded(Exited{0}));
  EXPECT_FALSE(Succeeded(Exited{1}));
  EXPECT_FALSE(Succeeded(Killed{}));
}

TEST(ExitStatus, ASignalWithoutANameIsSaidByNumber) {
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(1000), "signal 1000");
}

}  // namespace
}  // namespace ddprun
