// The launch verb: guard and agent, and the rendezvous server where this node hosts it.
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Runs a launch and returns the exit code for the shell. Call it before any thread exists.
int Launch(LaunchConfig config);

}  // namespace ddprun
