#include "trainer/checkpoint/digest.h"

#define XXH_INLINE_ALL  // No shared library at run time for one function.
#include <xxhash.h>

#include <charconv>

#include "common/check.h"

namespace ddprun {

struct StreamDigest::State {
  XXH64_state_t xxh64;
};

StreamDigest::StreamDigest() : state_(std::make_unique<State>()) {
  CHECK(XXH64_reset(&state_->xxh64, 0) == XXH_OK);
}

StreamDigest::~StreamDigest() = default;

void StreamDigest::Add(std::string_view piece) {
  if (!piece.empty()) {
    CHECK(XXH64_update(&state_->xxh64, piece.data(), piece.size()) == XXH_OK);
  }
}

std::uint64_t StreamDigest::Value() const {
  return XXH64_digest(&state_->xxh64);
}

std::uint64_t Digest(const std::vector<std::string_view>& parts) {
  StreamDigest digest;
  for (const std::string_view part : parts) {
    digest.Add(part);
  }
  return digest.Value();
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
