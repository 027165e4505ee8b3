// Whether a snapshot that was left in memory is a state to go on from, beside checkpoints on a
// disk. Pure.
//
// A state's path is the worlds that led to it since the checkpoint that it descends from, its base:
// each with the step at which the next one began. What a world of the path has committed until that
// step is an ancestor of the state; what it committed later, or anybody else, is not:
//
//   the disk's head                                      | the snapshot counts
//   -----------------------------------------------------|---------------------------------
//   is the base that the snapshot names, digest and all  | yes
//   none, and the snapshot names none                    | yes
//   made by a world of the path, at or before its last   | yes
//   step there                                           |
//   made by such a world later, or by any other world    | no: the disk has gone on
//
// And only of my run, in the same directory, of an earlier (term, generation); and where the best
// validation so far is on the disk or is the snapshot itself.
//
// It is asked twice: before the first step, of the newest record that can be read, and once the
// directory is claimed, of the head that the claim has found: from then on nobody else moves it.
// So a head that moved in between is an ancestor too, or the world ends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/memory_block.h"

namespace ddprun {

struct DiskHead {
  std::optional<CheckpointRef> head;
  std::optional<CheckpointRef> best;
};

// Why it does not count for `writer` in `directory`; none: it does.
std::optional<std::string> WhyNotFromMemory(const BlockFacts& facts, const TrainState& state,
                                            const Writer& writer, const std::string& directory,
                                            const DiskHead& disk);

// It is the best one so far itself, and not on the disk: to be saved as such.
bool OwesBest(const BlockFacts& facts, const TrainState& state, const DiskHead& disk);

// Of a world that begins from it.
std::vector<PathWorld> PathFrom(const BlockFacts& facts, const TrainState& state);

// The step and the world in a checkpoint's name.
struct MadeBy {
  std::uint64_t step = 0;
  WorldId world;
};
std::optional<MadeBy> WhoMade(const CheckpointRef& ref);

}  // namespace ddprun
