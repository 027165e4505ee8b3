// Finds, names and ends the processes that the workers of one generation leave behind.
//
// SIGCHLD wakes it. Descendants in a worker's session are that worker's; a process in a session of
// its own is found once all workers have ended, as it then is a child of this process.
//
//   meanwhile             | left in an ended worker's session | left in another session
//   ----------------------|-----------------------------------|------------------------
//   other workers run     | SIGKILL (1); nothing with `linger`| nothing
//   all workers have ended| SIGKILL (1), after `linger`       | the same
//   KillAll was called    | SIGKILL                           | SIGKILL
//
// (1) Where no worker has failed, 0.25 s after the last end: helpers such as Python's forkserver
// end by themselves as their worker has.
//
// A process that caught the signal to stop (WillAsk) may live until KillAll, as a worker may: it
// may save, below a shell that is dead. One that ignores that signal would only hold up the end.
#pragma once

#include <sys/types.h>

#include <boost/asio/signal_set.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/asio_loop.h"
#include "common/lifetime.h"

namespace ddprun {

struct StraysOfWorker {
  std::optional<std::uint32_t> local_rank;  // None: nothing tells which worker's they were.
  std::vector<std::string> names;           // "sh", one for each process.
  bool lingers = false;                     // They may continue for a while; else they were killed.
};

class Strays {
 public:
  struct Events {
    std::function<void()> none_left;  // All workers have ended, and what they left is gone.
    std::function<void(const StraysOfWorker&)> left;
  };

  Strays(AsioLoop& loop, Duration linger, Events events);
  // Ends what is there, without waiting for it.
  ~Strays();
  Strays(const Strays&) = delete;
  Strays& operator=(const Strays&) = delete;

  // Until Begin no child is looked at: it may be a worker that is being started.
  void Expect() { missed_ = false; }
  // The workers of a generation: process id and local rank.
  void Begin(std::map<pid_t, std::uint32_t> workers);
  // Its status was taken.
  void Ended(pid_t worker, bool succeeded);
  // This member of a running worker's session gets a signal to stop next.
  void WillAsk(pid_t pid, int signal);
  // The ended workers in whose sessions live processes that were asked.
  std::set<pid_t> AskedSessions() const;
  // Signals the processes that linger after workers that all succeeded; after a failure it sends
  // nothing. Those that were asked are the caller's.
  void Signal(int signal);
  // The workers themselves are the caller's to kill.
  void KillAll();

 private:
  void Watch();
  void LookSoon();
  void Look();
  void LookAgain();
  bool Lingers();
  bool EndsSoon() const;
  void Note(pid_t pid, bool lingers);
  void Tell(bool lingers);

  AsioLoop& loop_;
  const Duration linger_;
  const Events events_;
  boost::asio::signal_set child_signal_;
  LoopTimer look_again_;
  bool active_ = false;  // Between Begin and none_left.
  bool missed_ = false;  // Orphans may have come while it was not.
  bool look_is_due_ = false;
  bool killed_ = false;
  bool failed_ = false;  // One of them.
  std::map<pid_t, std::uint32_t> workers_;
  std::set<pid_t> running_;                 // Of them.
  std::set<pid_t> ended_;                   // Those whose sessions may have members left.
  std::set<pid_t> asked_;                   // Processes that caught a signal to stop.
  Time linger_until_;                       // Known once none is running.
  Time soon_;                               // What may end by itself has until then.
  std::set<std::pair<pid_t, bool>> noted_;  // With whether it was to linger.
  std::map<std::optional<std::uint32_t>, std::vector<std::string>> names_;  // Not reported yet.
  const Lifetime life_;
};

}  // namespace ddprun
