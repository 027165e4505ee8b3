// A snapshot in a block of memory that outlives the process (docs/recovery.md), as bytes.
//
//   head     | magic, sequence before, sizes, digest of the payload, sequence after, starts
//   payload  | facts (JSON), model and optimizer as safetensors
//
// Who writes may die between any two bytes. The sequence before is written first and the one after
// last, so that a block is whole where they are equal; the digest is of what was to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// What a block says beside the snapshot's state, which names its run and world.
struct BlockFacts {
  std::string directory;              // Of the checkpoints.
  std::optional<CheckpointRef> base;  // Their head when this world had claimed them. None: none.
  // The last step that was to be saved there; and since when none was.
  std::optional<std::uint64_t> handed_over;
  std::uint64_t unsaved_ms = 0;
  // The step of the best validation so far, where the best checkpoint is kept.
  std::optional<std::uint64_t> best;
  bool operator==(const BlockFacts&) const = default;
};

struct MemorySnapshot {
  std::uint64_t sequence = 0;
  std::uint64_t starts = 0;  // Worlds that began from it.
  BlockFacts facts;
  Snapshot snapshot;
};

// What a block needs for such snapshots, with room for a longer state.
std::size_t BlockBytes(const Snapshot& snapshot, const BlockFacts& facts);

// False: it does not fit, and the block is as it was. `sequence` is not 0, and another one than
// the block has. The block begins at a multiple of eight.
bool WriteBlock(std::span<char> block, std::uint64_t sequence, const Snapshot& snapshot,
                const BlockFacts& facts);

// Why it does not count, or a copy of what is in it.
Result<MemorySnapshot> ReadBlock(std::span<const char> block);

// A world begins from it.
void CountStart(std::span<char> block);

// 0: empty or torn.
std::uint64_t SequenceOf(std::span<const char> block);

}  // namespace ddprun
