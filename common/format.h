// Text made of values: formatted as printf does, and lists of them.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {

// As printf does, for a few numbers and short words: what is longer than a kilobyte is cut off.
[[gnu::format(printf, 1, 2)]] inline std::string Format(const char* format, ...) {
  char text[1024];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

// The result of `text` for each part, joined by `between`.
template <class Parts, class Text>
std::string Joined(const Parts& parts, std::string_view between, Text text) {
  std::string joined;
  for (const auto& part : parts) {
    joined += joined.empty() ? std::string_view() : between;
    joined += std::invoke(text, part);
  }
  return joined;
}

}  // namespace ddprun
