// What the launcher's configuration means for the agent: values only.
#pragma once

#include <string>

#include "agent/agent_options.h"
#include "launcher/command_line/config.h"
#include "launcher/preparation.h"
#include "launcher/run_directory.h"

namespace ddprun {

// But for the store's place, and who wants to know. `server`: where the rendezvous is, for people.
AgentOptions OptionsOf(const LaunchConfig& config, const Preparation& prepared,
                       const RunDirectory& directory, const NodeId& node,
                       const std::string& server);

}  // namespace ddprun
