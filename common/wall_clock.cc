#include "common/wall_clock.h"

#include <chrono>

namespace ddprun {

std::int64_t UnixMicroseconds() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
}

std::int64_t UnixMilliseconds() {
  return UnixMicroseconds() / 1'000;
}

double UnixSeconds() {
  return static_cast<double>(UnixMicroseconds()) / 1e6;
}

}  // namespace ddprun
