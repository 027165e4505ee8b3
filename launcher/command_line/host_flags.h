// --hosts, --hostfile and --launch-agent: on which hosts a run is started, and which other flags
// make no sense beside them.
#pragma once

#include "launcher/command_line/config.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/raw_flags.h"

namespace ddprun {

// Reads the file of --hostfile. Without --nnodes the run has as many nodes as there are hosts. On a
// host where such a run has started this process, it does nothing.
void ResolveHosts(RawFlags& raw, LaunchConfig& config, Problems& problems);

// --pool: its endpoint, and the flags that it excludes.
void ResolvePool(RawFlags& raw, LaunchConfig& config, Problems& problems);

}  // namespace ddprun
