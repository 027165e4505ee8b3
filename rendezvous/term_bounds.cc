#include "rendezvous/term_bounds.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "common/wall_clock.h"
#include "rendezvous/core/recovery.h"

namespace ddprun {
namespace {

constexpr std::chrono::hours kAlike{1};  // Clocks that differ by less are not why.

// "2026-11-26 09:50 UTC"
std::string DateOf(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1'000;
  std::tm parts{};
  char text[64] = "";
  if (::gmtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  }
  return text;
}

}  // namespace

TermBounds TermBoundsAt(std::int64_t unix_ms, Duration ahead) {
  const auto latest = static_cast<std::uint64_t>(std::max<std::int64_t>(0, unix_ms)) +
                      static_cast<std::uint64_t>(ahead.count());
  return {TermOf(latest), {latest}};
}

std::string WhyNotYet(Term term, std::int64_t unix_ms) {
  const std::uint64_t now = static_cast<std::uint64_t>(std::max<std::int64_t>(0, unix_ms));
  const std::uint64_t named = term.value / kTermsOfAMillisecond;
  const auto ahead = std::chrono::milliseconds(named - std::min(named, now));
  const bool years = ahead > std::chrono::years(10);
  return "which lies in the future: the clock of its source was " +
         (years ? "years" : FormatDuration(ahead)) + " ahead of this host's, " + DateOf(unix_ms) +
         " (compare `date -u` on both hosts) [clock-differs]";
}

std::string ClockAt(const Endpoint& endpoint, const std::optional<ClockOffset>& offset) {
  const std::chrono::microseconds off(offset ? offset->microseconds : 0);
  if (std::chrono::abs(off) < kAlike) {
    return "";
  }
  return "; the clock at " + ToString(endpoint) + " is " + FormatDuration(std::chrono::abs(off)) +
         (off.count() > 0 ? " ahead of" : " behind") + " this host's";
}

std::int64_t Latest(std::int64_t now, std::atomic<std::int64_t>& latest) {
  std::int64_t before = latest;
  while (before < now && !latest.compare_exchange_weak(before, now)) {
  }
  return std::max(before, now);
}

std::int64_t LatestUnixMilliseconds() {
  static std::atomic<std::int64_t> latest{0};
  return Latest(UnixMilliseconds(), latest);
}

}  // namespace ddprun
