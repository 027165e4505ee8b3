// Work that may hang, in a child process that has only so long for it.
//
// Forked where no thread is, so whatever the work needs may start there. It is what this process
// itself is: no program is looked for that may have been replaced since.
#pragma once

#include <functional>

#include "common/time.h"

namespace ddprun {

// Returns when the work is done, or shortly after the limit, when its process was killed; one that
// is stuck in the kernel is left behind. `moment` waits for a moment, or for a child's end.
void RunInChild(const std::function<void()>& work, Duration limit,
                const std::function<void()>& moment);

}  // namespace ddprun
