// Everything that is wrong with a command line, a line each.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "common/log.h"
#include "common/result.h"

namespace ddprun {

struct Problems {
  std::string text;

  template <class T>
  void Check(const Result<T>& result) {
    if (!result) {
      Add(result.error().message);
    }
  }
  // The error does not say which flag it is about.
  template <class T>
  void Check(const std::string& flag, const Result<T>& result) {
    if (!result) {
      Add(flag + ": " + result.error().message);
    }
  }
  void Add(const std::string& problem) { text += (text.empty() ? "" : "\n") + InOneLine(problem); }
  void Add(const Error& error) { Add(error.message); }
};

inline std::optional<std::uint32_t> NotNegative(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const bool good = !text.empty() && *end == '\0' && value >= 0 && value <= 1'000'000'000;
  return good ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

}  // namespace ddprun
