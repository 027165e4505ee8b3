// The messages of a launch before anything starts, and what it sets in its own environment.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line/config.h"
#include "launcher/preparation.h"

namespace ddprun {

// Warnings about this launch, for the user.
std::vector<std::string> StartupWarnings(const LaunchConfig& config, const Preparation& prepared);

// On stderr, as ddprun's own lines go there.
void SayStartupWarnings(const LaunchConfig& config, const Preparation& prepared);
// Of a launch whose nodes start elsewhere: its log, beginning with the warnings.
void StartLauncherLog(const LaunchConfig& config);
// The settings that the command line does not show.
void SayOrigins(const LaunchConfig& config);
// Logs the number of workers, if --nproc-per-node=auto left it to us.
void SayWorkerCount(const LaunchConfig& config, const Preparation& prepared);

// Sets, and removes, the variables that every worker gets from this process's environment.
void ApplyToEnvironment(const LaunchConfig& config, const Preparation& prepared);

}  // namespace ddprun
