// A Unix socket in the run directory, for operators on this machine of a run that opens no port. It
// is served by the gRPC service of every server: status, control and requests to nodes.
//
// Only sockets of this user and root are served (the kernel tells their owner), so no token is
// needed. The gRPC server begins with the first of them; until an operator connects the run has no
// gRPC thread. Bounded: a few connections at a time; one without a call is closed after a while.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/result.h"
#include "rendezvous/transport.h"

namespace ddprun {

inline constexpr const char* kControlSocket = "operators";  // Its name in a run directory.

class ControlSocket {
 public:
  // Mode 0600. The path may be longer than a socket's address. `token`: every request is given it.
  static Result<std::unique_ptr<ControlSocket>> Open(AsioLoop& loop,
                                                     const std::filesystem::path& run_directory,
                                                     const RendezvousHandlers& handlers,
                                                     const std::string& token);
  // Refuses parked calls and closes every connection: a fraction of a second.
  virtual ~ControlSocket() = default;
};

// A connection to the run's control socket. Blocks for `timeout` at most. kUnavailable: no run
// answers there. kRefused: the process that listens there belongs neither to this user nor to root.
Result<UniqueFd> ConnectToControlSocket(const std::filesystem::path& run_directory,
                                        Duration timeout);

}  // namespace ddprun
