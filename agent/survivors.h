// Follows in /proc the workers that got the order to end at once, and what they started.
//
// Says once a second whether a worker that catches TERM has worked: whether CPU time or written
// bytes have grown, its own or a descendant's, also once the worker itself has ended. A process
// that caught TERM and no longer does (a Python interpreter on its way out) gets it again every 100
// ms: else nothing would end it.
//
// Decides nothing: the caller says which process is killed when.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "common/asio_loop.h"

namespace ddprun {

class Survivors {
 public:
  // `sessions`: ProcessRunner::Sessions. `active` is called on the loop, never from inside a call.
  Survivors(AsioLoop& loop, std::function<std::set<pid_t>()> sessions, std::function<void()> active)
      : loop_(loop), sessions_(std::move(sessions)), active_(std::move(active)), timer_(loop) {}

  // Before they get a signal: a handler may be gone, or TERM ignored, as soon as it has begun.
  void NoteHandlers();
  // They got the order; follows them from now on, until Forget or until none is left.
  void Watch();
  void Forget();

 private:
  struct Work {
    std::uint64_t ticks = 0;    // CPU time.
    std::uint64_t written = 0;  // Bytes.
  };
  static Work WorkOf(pid_t pid);

  using Trees = std::map<pid_t, std::vector<pid_t>>;  // By session: the worker and its descendants.
  static Trees TreesOf(const std::set<pid_t>& sessions);

  void Look();
  void NoteHandler(pid_t pid);
  void TellAgain(const std::set<pid_t>& sessions) const;
  bool Measure(const std::set<pid_t>& sessions);

  AsioLoop& loop_;
  const std::function<std::set<pid_t>()> sessions_;
  const std::function<void()> active_;
  LoopTimer timer_;
  std::set<pid_t> catching_;    // Processes that were seen to catch TERM.
  std::map<pid_t, Work> seen_;  // At the last measurement.
  std::uint32_t looks_ = 0;
};

}  // namespace ddprun
