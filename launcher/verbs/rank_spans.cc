#include "launcher/verbs/rank_spans.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/result.h"
#include "common/text.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

std::optional<std::uint32_t> RankIn(std::string_view text) {
  const auto rank = ParseNumber<std::uint32_t>(text);
  return rank && *rank <= kMaxWorld ? rank : std::nullopt;
}

}  // namespace

Result<std::vector<RankSpan>> ParseRankSpans(const std::string& flag, const std::string& text) {
  std::vector<RankSpan> spans;
  for (const std::string& entry : Split(text.empty() ? "" : text + ",", ',')) {
    const std::size_t dash = entry.find('-');
    const auto first = RankIn(entry.substr(0, dash));
    const auto last = dash == std::string::npos ? first : RankIn(entry.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return Invalid(flag + " must be ranks and spans of them, like 3,7,10-12", text);
    }
    spans.push_back({*first, *last});
  }
  if (spans.size() > kMostRankSpans) {
    return Invalid(flag + " takes " + std::to_string(kMostRankSpans) + " ranks and spans at most",
                   text);
  }
  return spans;
}

}  // namespace ddprun
