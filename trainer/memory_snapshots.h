// This rank's snapshots in memory that its agent keeps (docs/recovery.md): two blocks, written in
// turn and used again by the next world, so that a killed run loses less than a second of steps and
// reads no disk.
//
// Copied and written on threads, at a pace of its own: what one costs is at most kMostCost of the
// time until it is ready for the next. Only a help: whatever fails here is as if there were no
// memory, and a checkpoint is there to go on from. The methods are for the training loop but for
// Find.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proto/worker_env.h"
#include "trainer/checkpoint/memory_block.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/disk/disk_thread.h"

namespace ddprun {

class MemorySnapshots {
 public:
  static constexpr double kMostCost = 0.003;

  // Nobody listens, or a world without a name: none are made, and none found.
  explicit MemorySnapshots(const WorkerEnv& env);
  ~MemorySnapshots();
  MemorySnapshots(const MemorySnapshots&) = delete;
  MemorySnapshots& operator=(const MemorySnapshots&) = delete;

  // Whole ones that earlier worlds left, copied. Before the first Begin; any thread.
  std::vector<MemorySnapshot> Find();

  // A world begins from this one of those found.
  void CountStart(std::uint64_t sequence);

  // Whether Begin would cost no more than it may. Where none are made it costs nothing.
  bool Ready(std::chrono::steady_clock::time_point now) const;
  // As Checkpointing::Save: WaitForCopy before anything viewed changes.
  void Begin(SnapshotView view, TrainState state, BlockFacts facts);
  void WaitForCopy();

 private:
  struct Blocks;
  void HandOver(Snapshot&& snapshot);

  const std::shared_ptr<Blocks> blocks_;  // The writing thread's as well, which may outlive this.
  DiskThread thread_;
  BlockFacts facts_;  // Of the snapshot that is being copied.
  std::chrono::steady_clock::time_point begun_;
  std::unique_ptr<SnapshotCopier> copier_;  // Last: it uses all above. None: none are made.
};

}  // namespace ddprun
