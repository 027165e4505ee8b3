// Which signals a guard passes on, and which of them are one request that arrives several times.
//
// GNU timeout signals its child and at once its child's process group. A shell's terminal and the
// parent process both send SIGINT, srun and systemd repeat theirs. A second request kills the
// workers at once, so a repetition must not pass for one.
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <map>

namespace ddprun {

inline constexpr std::array kPassedOn = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                         SIGUSR1, SIGUSR2, SIGWINCH};

// SIGCHLD and kPassedOn. A signal that the user had set to be ignored (nohup) stays ignored.
sigset_t SignalsOfTheGuard();

class SignalRequests {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // For so long after the first signal of a request others are that request. A person who presses
  // Ctrl-C twice, or a scheduler that loses its patience, takes longer than the tenth of a second
  // that a loaded machine may put between the two signals of one sender.
  static constexpr std::chrono::milliseconds kOneRequest{250};

  // True: this signal is a request of its own. Signals that ask for the end are one request,
  // whichever they are: a script that got SIGINT sends SIGTERM, systemd SIGTERM and SIGHUP. Only a
  // SIGINT after another one comes from a person: no sender repeats itself so.
  bool IsNew(int signal, Time now);

 private:
  struct Request {
    int signal = 0;  // The first one.
    Time began;
  };
  std::map<int, Request> requests_;  // By signal; those that ask for the end share an entry.
};

}  // namespace ddprun
