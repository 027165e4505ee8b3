// The memory that a training needs: as computed from its tensors, and as the system counts it.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// Of this process; 0: not known.
std::uint64_t ResidentBytes();

// "parameters 0.16 MB + gradients 0.16 MB + optimizer 0.32 MB = 0.64 MB", from what is trained.
std::string MemoryEstimate(const SnapshotView& view);
// "resident 131.2 MB, at most 140.0 MB", of this process.
std::string MemoryMeasured();

}  // namespace ddprun
