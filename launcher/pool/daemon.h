// `ddprun daemon`: offers this machine to a pool, and starts the nodes of the runs that it is
// given, one run at a time. Each has its own guard and agent, so the daemon's end stops no run.
//
// For systemd it says READY=1, STATUS= and, where asked to, WATCHDOG=1 (sd_notify(3)).
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Runs until SIGINT or SIGTERM, and returns the exit code for the shell.
int RunDaemon(const DaemonConfig& config);

}  // namespace ddprun
