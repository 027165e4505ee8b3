// Turns the launcher's configuration into the agent's: values only.
#pragma once

#include <map>
#include <string>

#include "agent/agent_options.h"
#include "launcher/command_line/config.h"
#include "launcher/preparation.h"
#include "launcher/run_directory.h"

namespace ddprun {

// But for the store's place, and the functions that want to know. `server`: where the rendezvous
// is, for people.
AgentOptions OptionsOf(const LaunchConfig& config, const Preparation& prepared,
                       const RunDirectory& directory, const NodeId& node,
                       const std::string& server);

// GLOO_SOCKET_IFNAME of a run of several nodes: the interface by which they reach this one. Gloo
// would take what the host's own name leads to, often loopback or another network. None where that
// is loopback: all nodes are on this machine.
std::map<std::string, std::string> NetworkOf(const LaunchConfig& config,
                                             const std::string& address);

}  // namespace ddprun
