// Which node this agent is, where nobody says: host#k with the lowest slot k that no other agent
// of the same run holds on this machine. So two agents on one machine are two nodes, and an agent
// that is started again takes its old place once nothing of it is left.
#pragma once

#include <string>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/ids.h"

namespace ddprun {

struct NodeSlot {
  NodeId node;    // "host#0"
  UniqueFd lock;  // Held by an exclusive flock until the last duplicate is closed.
};

// Locks live in $XDG_RUNTIME_DIR or /tmp/ddprun-UID, a directory that must be the user's own.
Result<NodeSlot> TakeNodeSlot(const std::string& host, const Endpoint& endpoint,
                              const RunId& run_id);

}  // namespace ddprun
