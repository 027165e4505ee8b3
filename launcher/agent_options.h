// What the launcher's configuration means for the agent: values only.
#pragma once

#include <string>

#include "agent/agent_options.h"
#include "launcher/command_line/config.h"

namespace ddprun {

// All but what names the node: that is known before. `server`: where the rendezvous is, for people.
void DescribeCore(const LaunchConfig& config, const std::string& server, AgentConfig& core);

// But for the host's name.
OutputRequest OutputOf(const LaunchConfig& config);

}  // namespace ddprun
