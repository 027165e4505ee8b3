#include "agent/limited_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace ddprun {

void RunInChild(const std::function<void()>& work, Duration limit,
                const std::function<void()>& moment) {
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == self) {
      work();
    }
    ::_exit(0);
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  for (bool killed = false; child > 0 && ::waitpid(child, nullptr, WNOHANG) == 0; moment()) {
    if (std::chrono::steady_clock::now() >= end) {
      if (killed) {
        return;
      }
      killed = ::kill(child, SIGKILL) == 0;
    }
  }
}

}  // namespace ddprun
