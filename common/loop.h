// The one loop thread that owns a process's mutable state, and the only source of Time.
//
// Everything else posts to it: gRPC's threads, the blocking pool. Never blocks: what can block
// (DNS, fsync) goes to RunBlocking and RunOnDisk, what may hang for ever to RunBounded. Post may be
// called from any thread; all else on the loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "common/time.h"

namespace ddprun {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs until Stop. The calling thread is the loop thread from here on.
  void Run();
  void Stop();

  // Any thread. Runs later, on the loop, in order of posting.
  void Post(std::function<void()> work);

  // `work` on the one thread for names and strangers (started at the first use), then `done` on the
  // loop. In order.
  void RunBlocking(std::function<void()> work, std::function<void()> done);

  // The same on a thread of the disk's, which may hang for ever: then nothing that comes after it
  // is done, but names are still found, and the loop's end waits a moment and leaves it behind.
  void RunOnDisk(std::function<void()> work, std::function<void()> done);

  // For what may never return, such as a file on a disk that hangs: `work` on a thread of its own,
  // then done(true) on the loop; or done(false) as soon as `limit` is over, or at once where
  // kMostStuck earlier ones have not returned yet. `work` may run on after that, and after the
  // loop's end: it owns all that it touches, and what it found counts only after done(true).
  void RunBounded(Duration limit, std::function<void()> work, std::function<void(bool)> done);
  static constexpr std::size_t kMostStuck = 256;

  Time Now() const;

  // Aborts when called off the loop thread while the loop runs.
  void CheckOnLoop() const;

  boost::asio::io_context& io() { return io_; }

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_;
  std::thread::id thread_;
  class Lane;
  std::shared_ptr<Lane> names_;
  std::shared_ptr<Lane> disk_;
  struct Gate;
  struct Errand;
  std::shared_ptr<Gate> gate_;  // Shared with threads that may outlive the loop.
  std::map<std::uint64_t, std::unique_ptr<Errand>> errands_;
  std::uint64_t last_errand_ = 0;

  void FinishErrand(std::uint64_t number, bool in_time);
};

// A thread of its own, which may outlive everything else. It gets no signal: those are for the
// threads that wait for them. False: no thread can be had.
bool StartThread(std::function<void()> work);

// As Loop::RunBounded for who has no loop to go on with: waits. False: `limit` was over first.
bool FinishesWithin(Duration limit, std::function<void()> work);

// One moment at which something must happen; arming replaces the earlier moment.
class LoopTimer {
 public:
  explicit LoopTimer(Loop& loop);
  // Nothing is armed for nullopt. `fire` runs on the loop, never from inside ArmAt.
  void ArmAt(std::optional<Time> when, std::function<void()> fire);
  void Cancel();

 private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<bool> armed_;  // False once replaced: an expiry already queued must not fire.
};

}  // namespace ddprun
