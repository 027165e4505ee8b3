// Decides whether ranks that may run on given cores can all run at a time, each on a core of its
// own.
//
// Pure. Knows nothing of what else these cores do.
#pragma once

#include <sched.h>

#include <span>

namespace ddprun {

// One set for each rank. All may overlap: four ranks that share four cores have one each, and so
// have four that are bound to one each.
bool CoreForEach(std::span<const cpu_set_t> ranks);

}  // namespace ddprun
