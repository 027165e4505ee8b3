// The guard's work for a server that died with this node's agent: it closes its claim in the run
// directory, so that another node becomes the leader at once.
//
// Runs in a process of its own that the guard limits in time (agent/limited_child.h), and only once
// nothing of this node is left. If it fails, the claim stays as it was and goes stale.
#pragma once

#include <string>

namespace ddprun {

// `held`: the text that the failover driver sent to the guard (held_claim.h).
void ReleaseClaim(const std::string& run_dir, const std::string& held);

}  // namespace ddprun
