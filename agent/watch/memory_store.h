// Memory that workers leave with their agent for the worker of the same local rank in the next
// generation, as systemd's file descriptor store does it (proto/memory_block.h). It goes with the
// agent.
//
//   a worker sends                              | it
//   --------------------------------------------|---------------------------------------------
//   FDSTORE=1 and one memfd, sealed against     | is kept, as FDNAME or "stored"; in place of
//   shrinking and growing                       | the block that has this name
//   FDSTOREREMOVE=1 and FDNAME                  | is kept no longer
//   any other descriptor, or more than one; a   | is refused and closed
//   17th name; more bytes than there may be     |
//
// Sealed: so its size is what it takes of the bytes, and no reader is killed by SIGBUS.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/result.h"
#include "common/task_queue.h"
#include "proto/notify.h"

namespace ddprun {

// A descriptor that another process made. Closing one may wait: for a disk, for a peer, or for
// gigabytes to be freed. So the last reference closes it on a thread, wherever it goes.
using ForeignFd = std::shared_ptr<const UniqueFd>;

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

// A descriptor that came beside a datagram.
struct SentDescriptor {
  ForeignFd file;    // None came, or: nullptr.
  bool cut = false;  // There were more, or no room for it in this process.
};

class MemoryStore {
 public:
  // Of all workers together; their bytes are sizes of files.
  explicit MemoryStore(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Why it is refused.
  Result<void> Hear(std::uint32_t local_rank, const Notification& said, const SentDescriptor& sent);

  std::vector<MemoryBlock> BlocksOf(std::uint32_t local_rank) const;

 private:
  struct Kept {
    ForeignFd file;
    std::uint64_t bytes = 0;
  };
  Result<void> Keep(std::uint32_t local_rank, const std::string& name, const ForeignFd& file);

  const std::uint64_t most_bytes_;
  std::uint64_t bytes_ = 0;
  std::map<std::uint32_t, std::map<std::string, Kept>> kept_;
};

// A quarter of this machine's memory, or of this process's cgroup's where that has less.
std::uint64_t MostKeptBytes();

}  // namespace ddprun
