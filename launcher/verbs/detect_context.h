// How this process was started (detect.h), together with the command line.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line/config.h"

namespace ddprun {

// Whether this process belongs to another launch, ddprun's or torchrun's. A scheduler's variables
// and a ddprun.toml, which placed and configured that one, do not apply to a launch inside it.
bool IsWorker(const GetEnv& get_env);

// Reads files of schedulers and counts GPUs; `said` as in ContextQuery. Called as torchrun,
// nothing is derived that torchrun would not.
Result<LaunchContext> DetectContext(const GetEnv& get_env, const std::vector<Setting>& said,
                                    const std::string& name);

// Why this launch context can never have such a run; empty: it can.
std::string WhyImpossible(const LaunchConfig& config);

// Facts that are probably not meant; `cpus` that ddprun may use.
std::vector<std::string> WarningsOf(const LaunchConfig& config, std::size_t cpus);

}  // namespace ddprun
