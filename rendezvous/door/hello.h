// Asks whether a ddprun rendezvous answers at an endpoint: the question before joining one whose
// port turned out to be in use.
//
// Blocks for `timeout` at most, beside the name's look-up: for the blocking pool, not the loop.
#pragma once

#include <chrono>
#include <string>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/ids.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

// A connection; no wait on it blocks. `what`: of an error's words, "the rendezvous at ".
Result<UniqueFd> ConnectWithin(const Endpoint& endpoint, const std::string& what,
                               std::chrono::steady_clock::time_point deadline);

// kRefused: something else answers there, and the message says what. kUnavailable: nobody does, or
// not in time, or whoever does ends the connection first.
Result<void> Hello(const Endpoint& endpoint, Duration timeout);

// What it says of itself to anybody.
struct HealthTold {
  RunId run;  // Empty: any, or nobody's business.
  bool wants_token = false;
  std::string sealed;  // The token, for those of one user to open; empty: it is not told so.
};
Result<HealthTold> AskHealth(const Endpoint& endpoint, Duration timeout);

// The same, and whether it serves the run: it says so where there is no token, else it proves that
// it has this one, and that run. kInvalid: one side has a token and the other has not.
Result<bool> Serves(const Endpoint& endpoint, const RunId& run, const std::string& token,
                    Duration timeout);

}  // namespace ddprun
