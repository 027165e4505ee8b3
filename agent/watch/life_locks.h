// Learns that a worker dies before its memory is given back: by its life lock (proto/life_lock.h).
//
// It is a hint. The worker's end, its status and its files come later, as without it. One thread
// waits for the locks of all workers (FUTEX_WAITV, Linux 5.16; without it there are no hints).
//
//   word of the lock                | the thread
//   --------------------------------|-------------------------------------------------------------
//   0, or the worker's number       | waits
//   FUTEX_OWNER_DIED, and /proc     | tells once, and waits for this worker no more
//     says that it dies             |
//   FUTEX_OWNER_DIED, and it does   | waits for this worker no more: it executed another program,
//     not                           | ended one thread, ends with 0, or another process wrote it
//   anything else                   | waits for this worker no more
//
// A worker dies where all of this holds, by /proc: its first thread is exiting (PF_EXITING), its
// exit code is not 0, and no other thread of it lives on: each is exiting, or SIGKILL waits for it.
// A normal end passes there too, and its code is 0 then; so it is where this user may not read it.
//
// Any byte may stand in the page, and another one a moment later. So the thread only waits on words
// and compares them. Its wake-ups in one generation are counted: a worker that writes its word
// again and again ends the hints, and costs no more.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/loop.h"

namespace ddprun {

// Whether it is ending, and not with success, by /proc. It may be gone already.
bool IsDying(pid_t process);

class LifeLockWatch {
 public:
  // `dying` is called on the loop.
  LifeLockWatch(Loop& loop, std::function<void(std::uint32_t local_rank, pid_t process)> dying);
  ~LifeLockWatch();
  LifeLockWatch(const LifeLockWatch&) = delete;
  LifeLockWatch& operator=(const LifeLockWatch&) = delete;

  // Frees all locks, for workers that are to be started. Returns the file of their variables; "":
  // this system has none.
  std::string Offer();
  // These have been started; by local rank, 0: none is.
  void Watch(const std::vector<pid_t>& workers);
  void End();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Shared with the thread.
};

// DDPRUN_LIFE_LOCK; "": it has none.
std::string LifeLockOf(const std::string& file, std::uint32_t local_rank);

}  // namespace ddprun
