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

std::string Hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ddprun
