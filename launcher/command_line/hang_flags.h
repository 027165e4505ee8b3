// --progress-from and --on-hang: what counts as progress, and what follows where there is none; and
// how a machine is checked (--host-check, --node-check-timeout).
#pragma once

#include "launcher/command_line/config.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/raw_flags.h"

namespace ddprun {

void ResolveHangFlags(const RawFlags& raw, LaunchConfig& config, Problems& problems);
void ResolveCheckFlags(const RawFlags& raw, LaunchConfig& config, Problems& problems);

}  // namespace ddprun
