// xxh64 over bytes that lie in several pieces: against bits that flip, not against an adversary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

// The same, of pieces that come one after the other.
class StreamDigest {
 public:
  StreamDigest();
  ~StreamDigest();
  StreamDigest(const StreamDigest&) = delete;
  StreamDigest& operator=(const StreamDigest&) = delete;

  void Add(std::string_view piece);
  std::uint64_t Value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t Digest(const std::vector<std::string_view>& parts);
std::uint64_t Digest(std::string_view bytes);

// The inverse of Hex: exactly sixteen hexadecimal digits.
std::optional<std::uint64_t> ParseHex(std::string_view text);

}  // namespace ddprun
