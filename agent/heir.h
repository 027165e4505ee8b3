// A process of the guard's that does what a dead agent cannot: for a short time, after everything
// else of the launch has ended, and alone.
//
// Forked where no thread is, so whatever the work needs may start there. It is what the guard
// itself is, with what that knew: no program is looked for that may have been replaced since.
#pragma once

#include <functional>

#include "common/time.h"

namespace ddprun {

// Returns when the work is done, or shortly after the limit, when its process was killed; one that
// is stuck in the kernel is left behind. `moment` waits for a moment, or for a child's end.
void RunHeir(const std::function<void()>& work, Duration limit,
             const std::function<void()>& moment);

}  // namespace ddprun
