// A launch with --pool: this process asks the pool for daemons, and is for its user what a launch
// here would be: output, signals, exit code. It starts nothing itself.
//
//   waits --enough daemons are free--> placed --all parts have ended--> over: the run's exit code
//   waits --a signal that stops--> leaves the queue: 128 + its number
//   placed --a signal--> every node's guard gets it
//
// While the pool's server is gone, the run continues. With --detach it ends once the pool has the
// run.
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Returns the exit code for the shell.
int LaunchOnPool(LaunchConfig config);

}  // namespace ddprun
