// Whether a snapshot that was left in memory is a state to continue from, beside checkpoints on a
// disk. Pure.
//
// It is judged by the head that the claim has found: from then on no other process moves it. Only a
// world that has claimed the checkpoints leaves a state. Its parent is the head that its own claim
// found, so that all that its world has committed until its step is an ancestor of the state; later
// commits, and those of other worlds, are not:
//
//   the disk's head                                      | the state counts
//   -----------------------------------------------------|---------------------------------
//   is the state's parent                                | yes
//   none, and the state has no parent                    | yes
//   made by its world, at or before its step             | yes
//   made by its world later, or by any other world       | no: the disk has gone on
//
// And only of my run, of an earlier (term, generation); and where the best validation so far is on
// the disk.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "trainer/checkpoint/fence_record.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

struct DiskHead {
  std::optional<CheckpointRef> head;
  std::optional<CheckpointRef> best;
};

// Why it is not valid for `writer`; none: it is. `best`: the step of the best validation so far,
// where the best checkpoint is kept.
std::optional<std::string> WhyNotFromMemory(const TrainState& state,
                                            std::optional<std::uint64_t> best, const Writer& writer,
                                            const DiskHead& disk);

// The age of a rank's state, as numbers that the ranks add up: each fills in its own, and all see
// alike which is the newest, by (term, generation, step), never by the step alone.
inline constexpr std::size_t kAgeNumbers = 4;
void PutAge(const TrainState& state, std::span<double, kAgeNumbers> numbers);
// The lowest rank that has the newest one. None: no rank has one.
std::optional<std::uint32_t> NewestOf(std::span<const double> numbers);

}  // namespace ddprun
