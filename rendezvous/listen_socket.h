// A listening TCP socket on exactly the endpoint named, and who has the port if somebody else does.
//
// Never SO_REUSEPORT: two servers would share one port silently. Close-on-exec, not blocking.
#pragma once

#include <cstdint>
#include <string>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

struct ListenSocket {
  UniqueFd fd;
  Endpoint endpoint;  // As asked for, with the port that was bound.
};

// Port 0: any free one. A host "0.0.0.0" or "::" is every address. A name is looked up, which may
// block. kUnavailable: the port is in use; kNotFound: the host is not an address of this machine.
Result<ListenSocket> ListenOn(const Endpoint& endpoint);

// "process 1234 (python3)"; empty when /proc does not tell, as for other users' processes.
std::string OwnerOfPort(std::uint16_t port);

}  // namespace ddprun
