// What the guard does for a server that died with this node's agent: closes its claim, in the run
// directory or with the nodes of the list, so that another node takes its part over at once.
//
// Runs in a process of its own that the guard limits in time (agent/heir.h), and only once nothing
// of this node is left. What it cannot do stays as it was: the claim goes stale.
#pragma once

#include "common/files.h"
#include "launcher/command_line/config.h"

namespace ddprun {

// `estate`: rendezvous/succession/estate_memory.h's.
void CloseClaimOfTheDead(LaunchConfig config, const UniqueFd& estate);

}  // namespace ddprun
