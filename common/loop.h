// The one loop that owns a process's mutable state, and the only source of Time: a real process's
// (common/asio_loop.h), or a simulated one's (tests/sim/process_loop.h).
//
// Everything else posts to it: gRPC's threads, the blocking pool. Never blocks: calls that can
// block (DNS, fsync) go to RunBlocking and RunOnDisk, calls that may hang for ever to RunBounded.
// Post may be called from any thread; all else on the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "common/time.h"

namespace ddprun {

// A loop's side of one LoopTimer. Its end is a Cancel.
class Alarm {
 public:
  virtual ~Alarm() = default;
  // Only while nothing is armed. `fire` runs on the loop, never from inside Set.
  virtual void Set(Time when, std::function<void()> fire) = 0;
  virtual void Cancel() = 0;
};

class Loop {
 public:
  Loop() = default;
  virtual ~Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Any thread. Runs later, on the loop, in order of posting.
  virtual void Post(std::function<void()> work) = 0;

  // `work` on the one thread for name lookups and untrusted peers (started at the first use), then
  // `done` on the loop. In order.
  virtual void RunBlocking(std::function<void()> work, std::function<void()> done) = 0;

  // The same on a thread of the disk's, which may hang for ever: then nothing that comes after it
  // is done, but names are still found.
  virtual void RunOnDisk(std::function<void()> work, std::function<void()> done) = 0;

  // The same once the loop has ended, or right before: waits for it, and for all that the disk's
  // thread has to do before. False: `limit` was over first, and `work` owns all that it touches.
  virtual bool FinishOnDisk(Duration limit, std::function<void()> work) = 0;

  // For what may never return, such as a file on a disk that hangs: `work` on a thread of its own,
  // then done(true) on the loop; or done(false) as soon as `limit` is over, or at once where
  // kMostStuck earlier ones have not returned yet. `work` may run on after that, and after the
  // loop's end: it owns all that it touches, and what it found counts only after done(true).
  virtual void RunBounded(Duration limit, std::function<void()> work,
                          std::function<void(bool)> done) = 0;
  static constexpr std::size_t kMostStuck = 256;

  virtual Time Now() const = 0;

  // Aborts when called off the loop thread while the loop runs.
  virtual void CheckOnLoop() const = 0;

 private:
  friend class LoopTimer;
  virtual std::unique_ptr<Alarm> NewAlarm() = 0;
};

// A thread of its own, which may outlive everything else. It gets no signal: those are for the
// threads that wait for them. False: no thread can be had.
bool StartThread(std::function<void()> work);

// As Loop::RunBounded for a caller without a loop: waits. False: `limit` was over first.
bool FinishesWithin(Duration limit, std::function<void()> work);

// One moment at which something must happen; arming replaces the earlier moment.
class LoopTimer {
 public:
  explicit LoopTimer(Loop& loop);
  // Nothing is armed for nullopt. `fire` runs on the loop, never from inside ArmAt.
  void ArmAt(std::optional<Time> when, std::function<void()> fire);
  void Cancel();

 private:
  std::unique_ptr<Alarm> alarm_;
};

}  // namespace ddprun
