#include "agent/workers/wait_status.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ddprun {
namespace {

constexpr int kCoreDumped = 0x80;

// The same 11 once in the upper and once in the lower byte.
TEST(WaitStatus, ExitCodeElevenIsNotSegmentationFault) {
  EXPECT_EQ(DecodeWaitStatus(11 << 8), ExitStatus(Exited{11}));
  EXPECT_EQ(DecodeWaitStatus(SIGSEGV), ExitStatus(Killed{SIGSEGV, false}));
  EXPECT_EQ(DecodeWaitStatus(SIGSEGV | kCoreDumped), ExitStatus(Killed{SIGSEGV, true}));
  EXPECT_EQ(DecodeWaitStatus(0), ExitStatus(Exited{0}));
}

}  // namespace
}  // namespace ddprun
