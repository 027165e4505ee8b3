// What a launch says, and sets in its own environment, before anything starts.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line/config.h"
#include "launcher/preparation.h"

namespace ddprun {

// What the user should know.
std::vector<std::string> Remarks(const LaunchConfig& config, const Preparation& prepared);

// On stderr, as ddprun's own lines go there.
void SayRemarks(const LaunchConfig& config, const Preparation& prepared);
// The settings that the command line does not show.
void SayOrigins(const LaunchConfig& config);
// What was counted, where --nproc-per-node=auto left it to us.
void SayWorkerCount(const LaunchConfig& config, const Preparation& prepared);

// What every worker is to find in its environment, and what not.
void ApplyToEnvironment(const LaunchConfig& config, const Preparation& prepared);

}  // namespace ddprun
