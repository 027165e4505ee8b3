// The node that this agent is: the scheduler's or a daemon's name for it, its fixed rank, or else
// host#k with the lowest slot k that no other agent of the same run holds on this machine. So two
// agents on one machine are two nodes, and an agent that is started again takes its old place once
// nothing of it is left.
#pragma once

#include <filesystem>

#include "common/files.h"
#include "common/ids.h"
#include "launcher/command_line/config.h"

namespace ddprun {

struct NodeSlot {
  NodeId node;    // "host#0"
  UniqueFd lock;  // Of a slot: an exclusive flock, until the last duplicate is closed.
};

// Of this user on this machine: $XDG_RUNTIME_DIR/ddprun, /tmp/ddprun-UID or ~/.cache/ddprun/HOST,
// the first that belongs to the user and can be written by no other one. Locks live here, and links
// to the run directories of servers.
Result<std::filesystem::path> UserDirectory();

Result<NodeSlot> NameThisNode(const LaunchConfig& config);

}  // namespace ddprun
