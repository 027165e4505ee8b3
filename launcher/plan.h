// The plan of a launch in words, with the origin of every setting: --dry-run. Starts nothing and
// opens no port; a host name may be looked up.
#pragma once

#include <string>

#include "launcher/command_line/config.h"
#include "launcher/preparation.h"

namespace ddprun {

std::string DescribePlan(const LaunchConfig& config, const Preparation& preparation);

// How many workers this node starts, and what was counted: "2 on this node: one per allowed CPU,
// ...".
std::string WorkerCount(const LaunchConfig& config, const Preparation& preparation);

}  // namespace ddprun
