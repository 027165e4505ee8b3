// The part of a command line that says where and how nodes meet, as values; for cli.cc alone.
#pragma once

#include "launcher/command_line/config.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/raw_flags.h"

namespace ddprun {

// Endpoint, run id, access and run directory. The numbers of nodes are known.
void ResolveRendezvous(const RawFlags& raw, LaunchConfig& config, Problems& problems);

}  // namespace ddprun
