// Calls of an operator to a rendezvous server over gRPC: status, orders, requests to nodes. They
// block, on a connection of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/result.h"
#include "rendezvous/door/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

// The status of a run, or of all runs for an empty id. Blocks for `timeout` at most, plus a
// look-up.
Result<std::vector<RunStatus>> AskStatus(const Endpoint& endpoint, const RunId& run_id,
                                         Duration timeout, const Access& access = {});

// Asks for a drain or stop, and returns what follows, in words. Blocks likewise.
Result<std::string> AskControl(const Endpoint& endpoint, const ControlRequest& request,
                               Duration timeout, const Tls& tls = {});

// A function with which an operator asks a server, on one connection. Each call blocks for as long
// as the server parks it, `timeout` at most. Looks the name up first.
using AskingWay = std::function<Result<AskReply>(const Asking&)>;
Result<AskingWay> WayToAsk(const Endpoint& endpoint, const Access& access, Duration timeout);

}  // namespace ddprun
