#include "launcher/kubernetes/yaml_quoted.h"

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

// Of UTF-8 that was found to be right.
std::uint32_t NextCodePoint(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(at++);
  const int more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  std::uint32_t code = more == 0 ? first : first & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    code = code << 6 | (byte(at++) & 0x3F);
  }
  return code;
}

// Controls, other lines' ends, a byte order mark: what some reader refuses or folds.
bool IsPlain(std::uint32_t code) {
  return (code >= 0x20 && code < 0x7F && code != '"' && code != '\\') ||
         (code > 0xA0 && code != 0x2028 && code != 0x2029 && code != 0xFEFF && code != 0xFFFE &&
          code != 0xFFFF);
}

bool IsUtf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

Result<std::string> YamlQuoted(const std::string& word) {
  if (!IsUtf8(word)) {
    return Invalid("a manifest is UTF-8, and this word is not", word);
  }
  std::string quoted = "\"";
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    const std::uint32_t code = NextCodePoint(word, at);
    if (IsPlain(code)) {
      quoted.append(word, begin, at - begin);
    } else if (code == '"' || code == '\\') {
      quoted += {'\\', static_cast<char>(code)};
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04X", code);  // None of them is longer.
      quoted += escaped;
    }
  }
  return quoted + '"';
}

Result<std::string> YamlArgument(const std::string& word) {
  std::string doubled;
  for (const char c : word) {
    doubled.append(c == '$' ? 2 : 1, c);
  }
  return YamlQuoted(doubled);
}

}  // namespace ddprun
