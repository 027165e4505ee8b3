// A descriptor that another process made. Closing one may wait: for a disk, for a peer, or for
// gigabytes to be freed. So the last reference closes it on a thread, wherever it goes.
#pragma once

#include <cstdint>
#include <memory>

#include "common/files.h"
#include "common/result.h"
#include "common/task_queue.h"

namespace ddprun {

using ForeignFd = std::shared_ptr<const UniqueFd>;

// The size of a memfd that is sealed against shrinking and growing. Asked first of what may be
// anything: it waits for nothing.
Result<std::uint64_t> BytesOfSealed(int fd);

// Any thread.
class ForeignDescriptors {
 public:
  // So many wait for one that does not close: a receiver takes no more.
  static constexpr std::size_t kMostWaiting = 64;

  ForeignDescriptors();

  ForeignFd Take(UniqueFd fd);
  bool full() const;

 private:
  std::shared_ptr<TaskQueue> line_;  // With what was taken.
};

}  // namespace ddprun
