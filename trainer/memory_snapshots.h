// The state that this node's first rank leaves in memory for the next world (docs/recovery.md), so
// that a killed run loses less than a second of steps and reads no disk. One slot, kept by the
// agent; one owner, for all ranks have the same.
//
//   memory  | holds                          | this process
//   --------|--------------------------------|---------------------------------------
//   kept    | the newest state, whole        | reads it once, then leaves it alone
//   spare   | the state before, or nothing   | writes the next one, then sends it: the
//           |                                | agent keeps it from here on, and the two
//           |                                | change places
//
// So a process that is killed at any instant leaves a whole state. Copied and written on a thread,
// at a pace of its own: one costs at most kMostCost of the time until it is ready for the next.
// Only a help: after any failure here the training continues as without it, and a checkpoint is
// there to continue from. The methods are for the training loop but for Find.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "common/files.h"
#include "proto/notify.h"
#include "proto/worker_env.h"
#include "trainer/checkpoint/saver.h"

namespace ddprun {

class MemorySnapshots {
 public:
  static constexpr double kMostCost = 0.003;

  // Not a node's first rank, no agent that listens, or a world without a name: none is made or
  // found.
  explicit MemorySnapshots(const WorkerEnv& env);
  MemorySnapshots(const MemorySnapshots&) = delete;
  MemorySnapshots& operator=(const MemorySnapshots&) = delete;

  // The snapshot of an earlier world, where it lies: until the second Begin. Before the first; any
  // thread.
  std::optional<Snapshot> Find();

  // Whether Begin would cost no more than it may. Where none are made it costs nothing.
  bool Ready(std::chrono::steady_clock::time_point now) const;
  // In the background: WaitForCopy before anything viewed changes.
  void Begin(SnapshotView view, TrainState state);
  void WaitForCopy();

 private:
  struct Memory {   // Empty: none.
    UniqueFd file;  // Sealed.
    Bytes bytes;
  };

  static Memory Make(std::size_t size);
  void Write(Snapshot&& snapshot);

  const Notifier notifier_;
  // The copier's, until it is idle:
  Memory kept_;
  Memory spare_;
  std::optional<Snapshot> spent_;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point next_;
  bool failed_ = false;
  std::unique_ptr<SnapshotCopier> copier_;  // Last: it uses all above. None: none are made.
};

}  // namespace ddprun
