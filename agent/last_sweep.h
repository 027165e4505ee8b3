// Ends the last processes of a launch, before the guard, or an agent without one, exits.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <vector>

#include "common/time.h"

namespace ddprun {

// Sends SIGKILL to every child except those in `spared` and a tidying process (process_tree.h).
// True: no other is left.
bool SweepOnce(std::vector<pid_t>& living, const std::set<pid_t>& spared);

// Spares tidying processes until `deadline`, then kills them. True: all are gone.
bool LetTidyUp(std::chrono::steady_clock::time_point deadline, const std::set<pid_t>& spared = {});

// SIGKILL to every descendant of this process, repeated until none is left or the limit is over;
// tidying processes (process_tree.h) may end by themselves until then. Blocks: for a process that
// is about to exit. True: none is left.
bool KillAllDescendants(Duration limit);

}  // namespace ddprun
