// Two nodes measure the way between them by plain TCP: small messages there and back, then as many
// bytes as go in half a second, in one direction after the other. One calls, the other one serves.
//
// Blocks, with a limit for each wait: for processes that have nothing else to do.
#pragma once

#include <string>
#include <string_view>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

struct Exchanged {
  double received = 0;  // Bytes a second that came here.
  double latency = 0;   // Seconds, there and back, the median; of who calls alone.
};

// `patience`: for the connection, and for each wait on it.
Result<UniqueFd> ConnectTo(const Endpoint& endpoint, Duration patience);
// This side's address.
std::string OwnAddressOf(int socket);
Result<void> SendBytes(int socket, std::string_view bytes);
Result<std::string> ReceiveBytes(int socket, std::size_t size);

Result<Exchanged> CallPair(const Endpoint& other);
Result<Exchanged> ServePair(int listener);

}  // namespace ddprun
