#include "common/ids.h"

#include <cinttypes>
#include <cstdio>
#include <random>
#include <string_view>

namespace ddprun {

std::uint64_t RandomBits() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

std::string Hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

}  // namespace ddprun
