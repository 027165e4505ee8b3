// Whether a snapshot that was left in memory is a state to go on from, beside checkpoints on a
// disk. Pure.
//
// Only a world that has claimed the checkpoints leaves one. Its base is the head that the claim
// found, so that what it has committed until its step is an ancestor of the state; what it
// committed later, or anybody else, is not:
//
//   the disk's head                                      | the snapshot counts
//   -----------------------------------------------------|---------------------------------
//   is the base that the snapshot names by its digest    | yes
//   none, and the snapshot names none                    | yes
//   made by its world, at or before its step             | yes
//   made by its world later, or by any other world       | no: the disk has gone on
//
// And only of my run, of an earlier (term, generation); and where the best validation so far is on
// the disk or is the snapshot itself.
//
// It is asked twice: before the first step, of the newest record that can be read, and once the
// directory is claimed, of the head that the claim has found: from then on nobody else moves it.
// So a head that moved in between is an ancestor too, or the world ends.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/memory_block.h"

namespace ddprun {

struct DiskHead {
  std::optional<CheckpointRef> head;
  std::optional<CheckpointRef> best;
};

// Why it does not count for `writer`; none: it does.
std::optional<std::string> WhyNotFromMemory(const BlockHeading& heading, const Writer& writer,
                                            const DiskHead& disk);

// It is the best one so far itself, and not on the disk: to be saved as such.
bool OwesBest(const BlockHeading& heading, const DiskHead& disk);

// The step and the world in a checkpoint's name.
struct MadeBy {
  std::uint64_t step = 0;
  WorldId world;
};
std::optional<MadeBy> WhoMade(const CheckpointRef& ref);

// Numbers that the ranks add up. What rank 0 alone knows of the checkpoints, but for the best one:
inline constexpr std::size_t kFactNumbers = 4;
void PutFacts(const BlockFacts& facts, std::span<double, kFactNumbers> numbers);
BlockFacts FactsIn(std::span<const double, kFactNumbers> numbers);

// The age of a rank's state: each fills in its own, and all see alike
// which is the newest, by (term, generation, step), never by the step alone.
inline constexpr std::size_t kAgeNumbers = 4;
void PutAge(const TrainState& state, std::span<double, kAgeNumbers> numbers);

struct NewestState {
  std::uint32_t holder = 0;  // The lowest rank that has it.
  std::uint32_t copies = 0;  // Ranks that have it.
};
std::optional<NewestState> NewestOf(std::span<const double> numbers);

}  // namespace ddprun
