// Time as the cores know it: a point on the driver's steady clock, which the cores cannot read for
// themselves. Only common/asio_loop.h makes one from a real clock; simulations and tests write it.
#pragma once

#include <chrono>
#include <string>

namespace ddprun {

using Duration = std::chrono::milliseconds;

struct CoreClock {  // Has no now(): callers pass the time.
  using duration = std::chrono::microseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<CoreClock>;
  static constexpr bool is_steady = true;
};
using Time = CoreClock::time_point;

// For people: "2.0 s", "350 ms", "4 min 10 s".
std::string FormatDuration(std::chrono::microseconds duration);

}  // namespace ddprun
