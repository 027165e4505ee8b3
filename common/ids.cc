#include "common/ids.h"

#include <boost/algorithm/hex.hpp>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <random>

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
  std::string text;
  boost::algorithm::hex_lower(bytes.begin(), bytes.end(), std::back_inserter(text));
  return text;
}

}  // namespace ddprun
