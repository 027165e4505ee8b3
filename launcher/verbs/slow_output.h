// Standard output, or error, for a verb that must continue asking while its reader stands still (a
// pager).
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>

#include "common/task_queue.h"

namespace ddprun {

class SlowOutput {
 public:
  // Bytes that wait; a caller with more to say stops until they are fewer.
  static constexpr std::size_t kRoom = std::size_t{1} << 20;

  explicit SlowOutput(int fd = 1) : fd_(fd) {}
  // Without Finish: output that waits is dropped, and a write whose reader stands still is left
  // behind.
  ~SlowOutput() { shared_->dropped = true; }
  SlowOutput(const SlowOutput&) = delete;
  SlowOutput& operator=(const SlowOutput&) = delete;

  void Put(const std::string& text);
  bool HasRoom() const { return shared_->bytes < kRoom; }
  bool Idle() const { return shared_->bytes == 0; }
  bool failed() const { return shared_->failed; }  // No reader is left, or the disk is full.
  // Blocks until all is written. False: it could not be.
  bool Finish();

 private:
  struct Shared {
    std::atomic<std::size_t> bytes = 0;  // That wait, or are being written.
    std::atomic<bool> failed = false;
    std::atomic<bool> dropped = false;
  };
  const int fd_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // With the tasks.
  TaskQueue queue_{std::numeric_limits<std::size_t>::max()};           // kRoom bounds it.
};

}  // namespace ddprun
