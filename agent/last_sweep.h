// The last processes of a launch: what the guard, or an agent without one, does before it exits.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "common/time.h"

namespace ddprun {

// SIGKILL to every child. Whether nothing is left but what tidies up (process_tree.h).
bool SweepOnce(std::vector<pid_t>& living);

// What tidies up is left alone until `deadline`, then killed. Whether it is gone.
bool LetTidyUp(std::chrono::steady_clock::time_point deadline);

// SIGKILL to every descendant of this process, repeated until none is left or the limit is over;
// what tidies up (process_tree.h) ends by itself until then. Blocks: for a process that is about to
// exit. True: none is left.
bool KillAllDescendants(Duration limit);

}  // namespace ddprun
