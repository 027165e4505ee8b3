// Whether a snapshot that was left in memory is a state to go on from, beside checkpoints on a disk
// that this world has claimed. Pure.
//
// From a claim on nobody but its holder moves the head. So what was made after a claim, from the
// head of that claim, descends from all that is committed as long as the head is that one, or one
// that the same world made on its way there:
//
//   the head that my claim found                        | the snapshot counts
//   ----------------------------------------------------|---------------------------------
//   is the base that the snapshot names, digest and all | yes
//   none, and the snapshot names none                   | yes
//   made by the snapshot's world, at or before its step | yes
//   made by its world later, or by any other world      | no: the disk has gone on
//
// And only of my run, in the same directory, of an earlier (term, generation); not where the best
// validation since is nowhere on the disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/memory_block.h"

namespace ddprun {

struct MemoryClaim {
  Writer writer;  // Who claims.
  std::string directory;
  std::optional<CheckpointRef> head;  // That it found.
  std::optional<CheckpointRef> best;
};

// Why it does not count; none: it does.
std::optional<std::string> WhyNotFromMemory(const BlockFacts& facts, const TrainState& state,
                                            const MemoryClaim& claim);

// By (term, generation, step), never by the step alone. nullptr: there is none.
const MemorySnapshot* NewestOf(const std::vector<MemorySnapshot>& found);

// The step and the world in a checkpoint's name.
struct MadeBy {
  std::uint64_t step = 0;
  WorldId world;
};
std::optional<MadeBy> WhoMade(const CheckpointRef& ref);

}  // namespace ddprun
