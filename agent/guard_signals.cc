#include "agent/guard_signals.h"

#include "common/exit_status.h"

namespace ddprun {

sigset_t SignalsOfTheGuard() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int signal : kPassedOn) {
    struct sigaction now {};
    const bool ignored = ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (signal != SIGHUP || !ignored) {
      ::sigaddset(&set, signal);
    }
  }
  return set;
}

bool SignalRequests::IsNew(int signal, Time now) {
  if (signal == SIGWINCH) {
    return true;  // The last one of several counts.
  }
  Request& last = requests_[AsksForTheEnd(signal) ? SIGTERM : signal];
  const bool by_a_person = signal == SIGINT && last.signal != SIGINT;
  if (last.signal != 0 && now < last.began + kOneRequest && !by_a_person) {
    return false;
  }
  last = {signal, now};
  return true;
}

}  // namespace ddprun
