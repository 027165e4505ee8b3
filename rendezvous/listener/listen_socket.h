// A listening TCP socket on exactly the endpoint named, and the process that has the port if it is
// taken.
//
// Never SO_REUSEPORT: two servers would share one port silently. Close-on-exec, not blocking.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <istream>
#include <set>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

struct ListenSocket {
  UniqueFd fd;
  Endpoint endpoint;  // As asked for, with the port that was bound.
};

// Where to listen, its name looked up.
struct ListenPlace {
  Endpoint endpoint;  // As asked for.
  std::vector<sockaddr_storage> addresses;
};

// Blocks while a name is looked up. kNotFound: the host has no address.
Result<ListenPlace> LookUpToListen(const Endpoint& endpoint);

// Port 0: any free one. A host "0.0.0.0" or "::" is every address. kUnavailable: the port is in
// use; kNotFound: the host is not an address of this machine.
Result<ListenSocket> ListenAt(const ListenPlace& place);

// The one and then the other.
Result<ListenSocket> ListenOn(const Endpoint& endpoint);

// The sockets of this machine that listen on the port, as /proc/PID/fd names them.
std::set<std::string> ListenersOn(std::uint16_t port);
// By one table of the kernel: /proc/net/tcp.
std::set<std::string> ListenersIn(std::istream& table, std::uint16_t port);

// "process 1234 (python3)"; empty when /proc does not tell, as for other users' processes.
std::string OwnerOfPort(std::uint16_t port);

}  // namespace ddprun
