// Which of this machine's addresses others reach it at, and where this node finds the rendezvous.
//
// Looks names up and asks the kernel for routes; opens no port and sends nothing.
#pragma once

#include <string>

#include "launcher/command_line/config.h"

namespace ddprun {

// This machine's address as the other nodes reach it: --local-addr, --interface's, or the source
// address of a packet to the endpoint (for the node that has the endpoint: to another node of the
// scheduler's list). Loopback if no other node can come.
Result<std::string> FindLocalAddress(const LaunchConfig& config);

// The endpoint as this node must use it. /etc/hosts often gives a machine's own name an address of
// 127.0.0.0/8: the node that it is the name of serves at FindLocalAddress instead, and any other
// one could never come: kInvalid, with what to do.
Result<Endpoint> FindMeetingPoint(const LaunchConfig& config);

}  // namespace ddprun
