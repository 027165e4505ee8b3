// Runs calls that touch a disk one after the other on a thread of its own, for a training loop
// whose peers take a rank that stands still for gone.
//
// Nobody waits for longer than he says: a network file system that hangs keeps this thread, never
// its owner. What is queued is bounded. At the end calls that do not come back are left behind,
// with what they refer to: a call must hold what it uses, not point to its owner.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace ddprun {

class DiskThread {
 public:
  static constexpr std::size_t kMostQueued = 1024;
  // What a training waits for a file that it can do without: at its start, and at its end.
  static constexpr std::chrono::milliseconds kMostOpening{2000};
  static constexpr std::chrono::milliseconds kMostFlushing{3000};

  DiskThread();
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  // False: so many wait already, and this one is dropped.
  bool Post(std::function<void()> call);
  // Whether all calls have come back; waits for it, but not for longer than `limit`.
  bool Drain(std::chrono::milliseconds limit);

 private:
  struct Queue;
  const std::shared_ptr<Queue> queue_;  // The thread's as well, which may outlive this.
};

}  // namespace ddprun
