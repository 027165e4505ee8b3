#include "trainer/stop_request.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "common/check.h"
#include "common/exit_code.h"
#include "proto/stop_signal.h"

namespace ddprun {
namespace {

// A handler has nowhere else to write to.
std::atomic<int> asked{0};
std::atomic<bool> ends_on_second{false};
std::atomic<bool> save_asked{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void OnSignal(int signal, siginfo_t* info, void*) {
  if (signal == StopRequest::SaveSignal()) {
    save_asked = true;
    return;
  }
  if (SaysEndAtOnce(*info) || (signal == SIGINT && asked != 0 && ends_on_second)) {
    _exit(kExitSignalBase + signal);
  }
  int none = 0;
  asked.compare_exchange_strong(none, signal);
}

}  // namespace

void StopRequest::Catch(bool alone) {
  ends_on_second = alone;
  struct sigaction action {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SaveSignal()}) {
    CHECK(::sigaction(signal, &action, nullptr) == 0);
  }
}

int StopRequest::SaveSignal() {
  return SIGURG;
}

bool StopRequest::TakeSave() {
  return save_asked.exchange(false);
}

std::optional<int> StopRequest::Signal() {
  const int signal = asked;
  return signal == 0 ? std::nullopt : std::optional(signal);
}

}  // namespace ddprun
