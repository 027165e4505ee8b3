// The secret that proves that a caller may control a server's runs: one token per server.
//
// Compared in constant time; never logged, never put on a command line. Without a token no caller
// may control anything: an empty one matches nothing, not even an empty one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.h"

namespace ddprun {

inline constexpr std::size_t kLeastToken = 16;  // Characters; a shorter token can be guessed.

// 256 random bits as hexadecimal digits.
std::string DrawToken();

// The first line of the file; refused when others than its owner may read it, or when it is short
// enough to be guessed (below 16 characters).
Result<std::string> ReadTokenFile(const std::filesystem::path& path);
// The same where workers of the user's, or other nodes, may have put anything: an ordinary file.
Result<std::string> ReadOrdinaryTokenFile(const std::filesystem::path& path);

// Mode 0600 from its first moment.
Result<void> WriteTokenFile(const std::filesystem::path& path, const std::string& token);

// Takes as long for every content; the length is no secret.
bool SameToken(std::string_view a, std::string_view b);

class ControlToken {
 public:
  void SetToken(std::string token) { token_ = std::move(token); }
  bool enabled() const { return !token_.empty(); }

  // The error says what is missing, and how to do better; wrong ones are counted.
  Result<void> Check(std::string_view given);
  std::uint64_t refused() const { return refused_; }

 private:
  std::string token_;
  std::uint64_t refused_ = 0;
};

}  // namespace ddprun
