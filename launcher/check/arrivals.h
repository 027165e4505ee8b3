// Who comes to a port of a check and knows its number.
//
// All that have come are heard at the same time: who says nothing keeps nobody waiting, and where
// there are too many of these the oldest goes. Blocks: for threads that have nothing else to do.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

#include "launcher/check/check_socket.h"

namespace ddprun {

struct ArrivalLimits {
  std::chrono::milliseconds patience{5'000};  // For the number; what is lost once comes within it.
  std::size_t most = 256;                     // That have not said it.
};

class Arrivals {
 public:
  Arrivals(int listener, std::string number, ArrivalLimits limits = {});

  // The next one that has said the number; what it says after that is unread.
  Result<UniqueFd> Next(CheckTime deadline);

 private:
  struct Guest {
    UniqueFd socket;
    CheckTime until;
    std::string said;
  };

  bool Wait(CheckTime deadline);
  UniqueFd HearAll();
  Result<void> Accept();

  const int listener_;
  const std::string number_;
  const ArrivalLimits limits_;
  std::deque<Guest> guests_;  // The oldest first.
};

}  // namespace ddprun
