#include "common/ids.h"

#include <cinttypes>
#include <cstdio>

namespace ddprun {

std::string Hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

}  // namespace ddprun
