// A launch with --hosts: guard and launcher here, and a node on each host. The launcher only
// connects; the rendezvous is among the hosts.
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Returns the exit code for the shell. Call it before any thread exists.
int LaunchOnHosts(const LaunchConfig& config);

}  // namespace ddprun
