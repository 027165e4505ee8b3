// A snapshot in a block of memory that outlives the process (docs/recovery.md), as bytes.
//
//   head     | magic, sequence before, sizes, digests of both, sequence after, starts
//   facts    | JSON
//   content  | model and optimizer as safetensors
//
// Who writes may die between any two bytes. The sequence before is written first and the one after
// last, so that a block is whole where they are equal; digests are of what was to be written. That
// of the content is how two ranks know that they have the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// A world on the way to a state, and the step at which the next one began from it.
struct PathWorld {
  Term term;
  Generation generation;
  WorldId world;
  std::uint64_t last_step = 0;
  bool operator==(const PathWorld&) const = default;
};

inline constexpr std::size_t kMostPath = 64;

// What a block says beside the snapshot's state, which names its run, its world and its step: the
// end of its path.
struct BlockFacts {
  std::string directory;              // Of the checkpoints.
  std::optional<CheckpointRef> base;  // Their head when the path began. None: none.
  std::vector<PathWorld> path;        // The worlds since, the oldest first, but for the last one.
  // The last step that was to be saved there; and since when none was.
  std::optional<std::uint64_t> handed_over;
  std::uint64_t unsaved_ms = 0;
  // The step of the best validation so far, where the best checkpoint is kept.
  std::optional<std::uint64_t> best;
  bool operator==(const BlockFacts&) const = default;
};

struct MemorySnapshot {
  std::uint64_t sequence = 0;
  std::uint64_t starts = 0;   // Worlds that began from it.
  std::uint64_t content = 0;  // Digest of model and optimizer.
  BlockFacts facts;
  Snapshot snapshot;
};

std::string ToText(const BlockFacts& facts);
Result<BlockFacts> BlockFactsFromText(std::string_view text);

// All that a block says but for its content.
struct BlockHeading {
  BlockFacts facts;
  TrainState state;
};
std::string ToText(const BlockFacts& facts, const TrainState& state);
Result<BlockHeading> BlockHeadingFromText(std::string_view text);

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
