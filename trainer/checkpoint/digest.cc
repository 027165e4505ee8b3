#include "trainer/checkpoint/digest.h"

#define XXH_INLINE_ALL  // No shared library at run time for one function.
#include <xxhash.h>

#include <charconv>

#include "common/check.h"

namespace ddprun {

std::uint64_t Digest(const std::vector<std::string_view>& parts) {
  XXH64_state_t state;
  CHECK(XXH64_reset(&state, 0) == XXH_OK);
  for (const std::string_view part : parts) {
    if (!part.empty()) {
      CHECK(XXH64_update(&state, part.data(), part.size()) == XXH_OK);
    }
  }
  return XXH64_digest(&state);
}

std::uint64_t Digest(std::string_view bytes) {
  return Digest(std::vector<std::string_view>{bytes});
}

std::optional<std::uint64_t> ParseHex(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace ddprun
