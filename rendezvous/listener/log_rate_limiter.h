// Limits log lines that any peer can cause as often as it likes: five for each reason in ten
// seconds, then one with the number of the suppressed ones. Nothing else that an unauthenticated
// peer does is logged.
//
// LogRateLimiter is pure: time comes from the caller. Reasons are the program's own words, never a
// peer's; beyond kMostReasons at once they are one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/loop.h"

namespace ddprun {

inline constexpr std::uint64_t kLinesPerReason = 5;
inline constexpr Duration kRateLimitWindow{10'000};
inline constexpr std::size_t kMostReasons = 32;

class LogRateLimiter {
 public:
  // Whether this line may be logged.
  bool Allow(std::string_view reason, Time now);

  // A line for each window that has ended by now and had suppressed lines: "REASON (245 times
  // more)".
  std::vector<std::string> Suppressed(Time now);
  // When the first window ends; nullopt: none is open.
  std::optional<Time> NextSuppressed() const;

 private:
  struct Window {
    Time until;
    std::uint64_t lines = 0;
  };
  std::map<std::string, Window, std::less<>> windows_;
};

// The same in the log. On the loop.
class RateLimitedLog {
 public:
  explicit RateLimitedLog(Loop& loop) : loop_(loop), summary_(loop) {}

  // False: the line was suppressed, and is only counted. A line with an empty reason is always
  // logged: no peer can cause it.
  bool Say(LogLevel level, std::string_view reason, std::string_view line);

 private:
  void Arm();

  Loop& loop_;
  LogRateLimiter limiter_;
  LoopTimer summary_;
};

}  // namespace ddprun
