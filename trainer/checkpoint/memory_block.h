// A snapshot in a block of memory that outlives the process (docs/recovery.md), as bytes.
//
//   head     | magic, sizes, digest, starts
//   heading  | JSON: what the block says of saves, and the training's state
//   content  | model and optimizer as safetensors
//
// A block is written, then handed over, and not written again until another one has taken its
// place. So the one that is found is whole; the digest is against all that goes wrong nevertheless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// What a block says beside the snapshot's state, which names its run, its world and its step.
struct BlockFacts {
  // The digest of the checkpoints' head when the state's world claimed them. None: there was none.
  std::optional<std::uint64_t> base;
  // The last step that was to be saved there; and since when none was.
  std::optional<std::uint64_t> handed_over;
  std::uint64_t unsaved_ms = 0;
  // The step of the best validation so far, where the best checkpoint is kept.
  std::optional<std::uint64_t> best;
  std::uint64_t starts = 0;  // Worlds that began from it; in the head, so that it can be raised.
  bool operator==(const BlockFacts&) const = default;
};

// All that a block says but for its content; the snapshot has the state.
struct BlockHeading {
  BlockFacts facts;
  TrainState state;
};
std::string ToText(const BlockHeading& heading);
Result<BlockHeading> BlockHeadingFromText(std::string_view text);

struct MemorySnapshot {
  BlockFacts facts;
  Snapshot snapshot;
};

// What a block needs for such snapshots, with room for a longer state.
std::size_t BlockBytes(const Snapshot& snapshot, const BlockFacts& facts);

// False: it does not fit, and the block is as it was.
bool WriteBlock(std::span<char> block, const Snapshot& snapshot, const BlockFacts& facts);

// Why it does not count, or a copy of what is in it.
Result<MemorySnapshot> ReadBlock(std::span<const char> block);

// A world begins from it.
void CountStart(std::span<char> block);

}  // namespace ddprun
