#include "agent/workers/wait_status.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>

#include "common/check.h"

namespace ddprun {

// Boost.Process hands the same number to a worker that exits with 11 and to one that dies of
// SIGSEGV, so its exit code is never looked at.
ExitStatus DecodeWaitStatus(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return Exited{WEXITSTATUS(wait_status)};
  }
  CHECK(WIFSIGNALED(wait_status));  // Stopped children are never waited for.
  return Killed{WTERMSIG(wait_status), WCOREDUMP(wait_status) != 0};
}

bool IsOwnFault(const Killed& killed) {
  constexpr std::array kFaults = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
  return std::find(kFaults.begin(), kFaults.end(), killed.signal) != kFaults.end();
}

}  // namespace ddprun
