// One line of torchrun's watchdog protocol: a worker asks to be killed unless it says by some
// moment that it got through a piece of work.
//
//   {"version": 1, "pid": 42, "scope_id": "step", "expiration_time": 1795263336.5, "signal": 9}
//
// A negative expiration_time takes it back; a signal of 0 or less means: only say so. Pure. Any
// process that may open the pipe may write anything, so nothing else is a request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct TimerRequest {
  std::int64_t pid = 0;
  std::string scope;
  double expires = 0;  // Seconds since the epoch; negative: taken back.
  int signal = 0;
  bool operator==(const TimerRequest&) const = default;
};

// Begins the message of a worker that ddprun killed for its timer; the timer's name follows.
inline constexpr std::string_view kTimerExpired = "watchdog timer '";

std::optional<TimerRequest> ParseTimerRequest(std::string_view line);

}  // namespace ddprun
