#include "rendezvous/real_names.h"

#include <algorithm>
#include <chrono>

#include "rendezvous/core/recovery.h"

namespace ddprun {

RealNames RealNamesAt(std::int64_t unix_ms, Duration ahead) {
  const auto latest = static_cast<std::uint64_t>(std::max<std::int64_t>(0, unix_ms)) +
                      static_cast<std::uint64_t>(ahead.count());
  return {TermOf(latest), {latest}};
}

std::int64_t UnixMilliseconds() {
  return UnixMicroseconds() / 1'000;
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

std::int64_t UnixMicroseconds() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
}

}  // namespace ddprun
