#include "launcher/verbs/filled_example.h"

#include <algorithm>

namespace ddprun {

std::string FilledExample(std::string_view text, const ExampleWords& words) {
  std::string filled;
  while (!text.empty()) {
    const auto found =
        std::ranges::find_if(words, [&](const auto& word) { return text.starts_with(word.first); });
    filled += found == words.end() ? std::string(1, text.front()) : found->second;
    text.remove_prefix(found == words.end() ? 1 : found->first.size());
  }
  return filled;
}

}  // namespace ddprun
