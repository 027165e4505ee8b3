// torchrun's events about workers and agent, one JSON object per line on stderr, for programs that
// read them there: --event-log-handler=console. Where torchrun leaves exit code, pid and time out,
// they are said.
#pragma once

#include <chrono>
#include <string>

#include "agent/agent_options.h"
#include "launcher/command_line/config.h"

namespace ddprun {

// One line, without its end.
std::string WorkerEvent(const LaunchConfig& config, const std::string& host, const WorkerNews& news,
                        std::chrono::system_clock::time_point now);
std::string EndEvent(const LaunchConfig& config, const std::string& host, bool succeeded,
                     std::uint32_t restarts, std::chrono::system_clock::time_point now);

}  // namespace ddprun
