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

// is_discarded(): no JSON, or nested deeper than kMaxJsonDepth.
template <class Json = nlohmann::json>
Json ParseJson(std::string_view text);

// Empty: it is no object, or has no text of that name.
template <class Json>
std::string TextIn(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->template get<std::string>() : "";
}

}  // namespace ddprun

// The parser and the writer are compiled once, in json.cc.
extern template std::string nlohmann::json::dump(int, char, bool, error_handler_t) const;
extern template std::string nlohmann::ordered_json::dump(int, char, bool, error_handler_t) const;
extern template nlohmann::json ddprun::ParseJson(std::string_view text);
extern template nlohmann::ordered_json ddprun::ParseJson(std::string_view text);
