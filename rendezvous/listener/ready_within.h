// Waits for a descriptor until a moment. Blocks: for threads that have nothing else to do.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace ddprun {

// False: nothing within the deadline, or an error that the next call will tell.
inline bool ReadyWithin(int fd, short events, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return false;
    }
    pollfd item{fd, events, 0};
    const int ready =
        ::poll(&item, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready > 0 || (ready < 0 && errno != EINTR)) {
      return ready > 0;
    }
  }
}

}  // namespace ddprun
