#include "common/json.h"

template std::string nlohmann::json::dump(int, char, bool, error_handler_t) const;
template std::string nlohmann::ordered_json::dump(int, char, bool, error_handler_t) const;

namespace ddprun {
namespace {

// Exact for JSON; of anything else, up to where it stops being JSON.
bool NestsTooDeep(std::string_view text) {
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

}  // namespace

template <class Json>
Json ParseJson(std::string_view text) {
  return NestsTooDeep(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}
template nlohmann::json ParseJson(std::string_view text);
template nlohmann::ordered_json ParseJson(std::string_view text);

}  // namespace ddprun
