// Asks whether a ddprun rendezvous answers at an endpoint: the question before joining one whose
// port turned out to be in use.
//
// Blocks for `timeout` at most, beside the name's look-up: for the blocking pool, not the loop.
#pragma once

#include <chrono>
#include <string>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

// A connection; no wait on it blocks. `what`: of an error's words, "the rendezvous at ".
Result<UniqueFd> ConnectWithin(const Endpoint& endpoint, const std::string& what,
                               std::chrono::steady_clock::time_point deadline);

// kRefused: something else answers there, and the message says what. kUnavailable: there is no
// answer, or not in time, or the other end closes the connection first.
Result<void> Hello(const Endpoint& endpoint, Duration timeout);

// The token that it has sealed, for those of one user to open; empty: it has none to tell.
Result<std::string> AskSealed(const Endpoint& endpoint, Duration timeout);

}  // namespace ddprun
