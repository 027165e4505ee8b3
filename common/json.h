// The one way in which foreign JSON becomes values.
//
// Decides how deep it may nest: nlohmann's parser needs no stack for it, but copying, writing and
// comparing its values is recursive, and 100,000 brackets are a file of 100 kB. So the text is
// judged before anything is made of it. Never throws for what the text says.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kMaxJsonDepth = 64;

// Exact for JSON; of anything else, up to where it stops being JSON.
inline bool NestsTooDeep(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) {
        return true;
      }
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// is_discarded(): no JSON, or nested deeper than kMaxJsonDepth.
template <class Json = nlohmann::json>
Json ParseJson(std::string_view text) {
  return NestsTooDeep(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}

// Empty: it is no object, or has no text of that name.
template <class Json>
std::string TextIn(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->template get<std::string>() : "";
}

}  // namespace ddprun
