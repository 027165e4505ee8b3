#include "rendezvous/listener/log_rate_limiter.h"

#include <algorithm>

namespace ddprun {

bool LogRateLimiter::Allow(std::string_view reason, Time now) {
  auto found = windows_.find(reason);
  if (found == windows_.end() && windows_.size() >= kMostReasons) {
    reason = "other reasons";
    found = windows_.find(reason);
  }
  if (found == windows_.end()) {
    found = windows_.emplace(reason, Window{now + kRateLimitWindow}).first;
  }
  return ++found->second.lines <= kLinesPerReason;
}

std::vector<std::string> LogRateLimiter::Suppressed(Time now) {
  std::vector<std::string> suppressed;
  std::erase_if(windows_, [&](const auto& entry) {
    const auto& [reason, window] = entry;
    if (window.until > now) {
      return false;
    }
    if (window.lines > kLinesPerReason) {
      suppressed.push_back(reason + " (" + std::to_string(window.lines - kLinesPerReason) +
                           (window.lines == kLinesPerReason + 1 ? " time more)" : " times more)"));
    }
    return true;
  });
  return suppressed;
}

std::optional<Time> LogRateLimiter::NextSuppressed() const {
  std::optional<Time> next;
  for (const auto& [reason, window] : windows_) {
    next = next ? std::min(*next, window.until) : window.until;
  }
  return next;
}

bool RateLimitedLog::Say(LogLevel level, std::string_view reason, std::string_view line) {
  const bool first = !limiter_.NextSuppressed();
  const bool said = reason.empty() || limiter_.Allow(reason, loop_.Now());
  if (said) {
    Log(level, line);
  }
  if (first) {
    Arm();
  }
  return said;
}

void RateLimitedLog::Arm() {
  summary_.ArmAt(limiter_.NextSuppressed(), [this] {
    for (const std::string& line : limiter_.Suppressed(loop_.Now())) {
      Log(LogLevel::kWarning, line);
    }
    Arm();
  });
}

}  // namespace ddprun
