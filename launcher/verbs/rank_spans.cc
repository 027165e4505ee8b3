#include "launcher/verbs/rank_spans.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "common/result.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

std::optional<std::uint32_t> RankIn(std::string_view text) {
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc{} || end != text.data() + text.size() || rank > kMaxWorld) {
    return std::nullopt;
  }
  return rank;
}

}  // namespace

Result<std::vector<RankSpan>> ParseRankSpans(const std::string& flag, const std::string& text) {
  std::vector<RankSpan> spans;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = std::string_view(text).substr(begin, end - begin);
    const std::size_t dash = entry.find('-');
    const auto first = RankIn(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : RankIn(entry.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return Invalid(flag + " must be ranks and spans of them, like 3,7,10-12", text);
    }
    spans.push_back({*first, *last});
    begin = end + 1;
  }
  if (spans.size() > kMostRankSpans) {
    return Invalid(flag + " takes " + std::to_string(kMostRankSpans) + " ranks and spans at most",
                   text);
  }
  return spans;
}

std::string RankSpansText(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    text += last == i ? "" : "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ddprun
