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
// So a process that is killed at any instant leaves a whole state. Copied and written on threads,
// at a pace of its own: what one costs is at most kMostCost of the time until it is ready for the
// next. Only a help: whatever fails here is as if there were no memory, and a checkpoint is there
// to go on from. The methods are for the training loop but for Find.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "proto/worker_env.h"
#include "trainer/checkpoint/memory_block.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/disk/disk_thread.h"

namespace ddprun {

class MemorySnapshots {
 public:
  static constexpr double kMostCost = 0.003;

  // Not a node's first rank, nobody listens, or a world without a name: none is made or found.
  explicit MemorySnapshots(const WorkerEnv& env);
  ~MemorySnapshots();
  MemorySnapshots(const MemorySnapshots&) = delete;
  MemorySnapshots& operator=(const MemorySnapshots&) = delete;

  // What an earlier world left, copied. Before the first Begin; any thread.
  std::optional<MemorySnapshot> Find();

  // A world begins from what was found.
  void CountStart();

  // Whether Begin would cost no more than it may. Where none are made it costs nothing.
  bool Ready(std::chrono::steady_clock::time_point now) const;
  // As Checkpointing::Save: WaitForCopy before anything viewed changes.
  void Begin(SnapshotView view, TrainState state, BlockFacts facts);
  void WaitForCopy();

 private:
  struct Slot;
  void HandOver(Snapshot&& snapshot);

  const std::shared_ptr<Slot> slot_;  // The writing thread's as well, which may outlive this.
  DiskThread thread_;
  BlockFacts facts_;  // Of the snapshot that is being copied.
  std::chrono::steady_clock::time_point begun_;
  std::unique_ptr<SnapshotCopier> copier_;  // Last: it uses all above. None: none are made.
};

}  // namespace ddprun
