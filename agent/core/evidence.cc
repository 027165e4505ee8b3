#include "agent/core/evidence.h"

#include <algorithm>

namespace ddprun {

std::optional<Duration> TakeTime(FailureDetails& details, Duration since_began,
                                 std::int64_t now_unix_ms) {
  const std::int64_t said = details.unix_ms;
  const std::int64_t began = now_unix_ms - since_began.count();
  constexpr std::int64_t kSecond = 1000;  // Whole seconds: the last moment may not be over yet.
  if (said < began || said - said % kSecond > now_unix_ms) {
    details.unix_ms = now_unix_ms;
    return std::nullopt;
  }
  details.unix_ms = std::min(said, now_unix_ms);
  return Duration{now_unix_ms - details.unix_ms};
}

std::string LastOf(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text.size() > kMaxLastLines ? text.substr(text.size() - kMaxLastLines) : text;
}

}  // namespace ddprun
