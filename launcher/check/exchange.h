// Two nodes measure the way between them: small messages there and back, then both send at once for
// a while. One of them calls, the other one serves; both know the number of this check.
#pragma once

#include <string>

#include "launcher/check/check_socket.h"

namespace ddprun {

struct Exchanged {
  double received = 0;  // Bytes a second that came here.
  double latency = 0;   // Seconds, there and back, the median; of who calls alone.
};

Result<Exchanged> CallPair(const Endpoint& other, const std::string& number);
Result<Exchanged> ServePair(int listener, const std::string& number);

}  // namespace ddprun
