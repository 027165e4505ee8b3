// What the guard does for a server that died with this node's agent: closes its claim in the run
// directory, so that another node takes its part over at once.
//
// Runs in a process of its own that the guard limits in time (agent/limited_child.h), and only once
// nothing of this node is left. What it cannot do stays as it was: the claim goes stale.
#pragma once

#include <string>

namespace ddprun {

// `held`: as the failover driver told the guard (held_claim.h).
void ReleaseClaim(const std::string& run_dir, const std::string& held);

}  // namespace ddprun
