// The one loop thread that owns a process's mutable state, and the only source of Time.
//
// Everything else posts to it: gRPC's threads, the blocking pool. Never blocks: what can block
// (DNS, fsync) goes to RunBlocking and RunOnDisk. Post may be called from any thread; all else on
// the loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
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
};

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
