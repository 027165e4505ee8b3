// Calls of an operator to a rendezvous server over gRPC: status, orders, requests to nodes. They
// block, on a connection of their own.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/result.h"
#include "rendezvous/door/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Where an operator reaches a server: over the network, or at the control socket of a run on this
// machine that opens no port.
struct ServerAddress {
  Endpoint endpoint;
  Access access;                         // An empty token: none was found.
  std::filesystem::path control_socket;  // In this run directory; empty: use `endpoint`.
};

// The status of a run, or of all runs for an empty id. Blocks for `timeout` at most, plus a
// look-up.
Result<std::vector<RunStatus>> AskStatus(const ServerAddress& server, const RunId& run_id,
                                         Duration timeout);

// Asks for a drain or stop, and returns what follows, in words. Blocks likewise. The request's own
// token is shown.
Result<std::string> AskControl(const ServerAddress& server, const ControlRequest& request,
                               Duration timeout);

// A function with which an operator asks a server, on one connection. Each call blocks for as long
// as the server parks it, `timeout` at most. Looks the name up first.
using AskingWay = std::function<Result<AskReply>(const Asking&)>;
Result<AskingWay> WayToAsk(const ServerAddress& server, Duration timeout);

}  // namespace ddprun
