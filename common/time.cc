#include "common/time.h"

#include <cstdio>

namespace ddprun {

std::string FormatDuration(std::chrono::microseconds duration) {
  const double seconds = static_cast<double>(duration.count()) / 1e6;
  char text[48];
  if (seconds < 1.0) {
    std::snprintf(text, sizeof text, "%.0f ms", seconds * 1e3);
  } else if (seconds < 60.0) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    const long whole = static_cast<long>(seconds);
    if (whole >= 3600) {
      std::snprintf(text, sizeof text, "%ld h %02ld min", whole / 3600, whole % 3600 / 60);
    } else {
      std::snprintf(text, sizeof text, "%ld min %02ld s", whole / 60, whole % 60);
    }
  }
  return text;
}

}  // namespace ddprun
