#include "common/exit_status.h"

#include <signal.h>
#include <string.h>

#include "common/overload.h"

namespace ddprun {

bool Succeeded(const ExitStatus& status) {
  return status == ExitStatus(Exited{0});
}

std::string Describe(const ExitStatus& status) {
  return std::visit(
      Overload{[](const Exited& exited) { return "exit code " + std::to_string(exited.code); },
               [](const Killed& killed) {
                 return "killed by signal " + std::to_string(killed.signal) + " (" +
                        SignalName(killed.signal) + (killed.core_dumped ? ", core dumped)" : ")");
               }},
      status);
}

int ShellCode(const ExitStatus& status) {
  return std::visit(Overload{[](const Exited& exited) { return exited.code; },
                             [](const Killed& killed) { return 128 + killed.signal; }},
                    status);
}

std::string SignalName(int signal) {
  if (const char* const name = ::sigabbrev_np(signal)) {
    return std::string("SIG") + name;
  }
  return "signal " + std::to_string(signal);
}

bool AsksForTheEnd(int signal) {
  return signal != SIGCHLD && signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGWINCH;
}

}  // namespace ddprun
