#include "proto/hostlist.h"

#include <algorithm>
#include <optional>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxDigits = 18;  // Fit 64 bits.

struct Range {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t width = 0;  // Shorter numbers are padded with zeros.

  std::size_t size() const { return high - low + 1; }
};

// Text, or the numbers of one bracket.
struct Piece {
  std::string_view text;
  std::vector<Range> ranges;  // Empty: the text itself.

  // kMaxHosts + 1 stands for anything beyond it.
  std::size_t size() const {
    std::size_t sum = ranges.empty() ? 1 : 0;
    for (const Range& range : ranges) {
      sum = std::min(kMaxHosts + 1, sum + std::min(kMaxHosts + 1, range.size()));
    }
    return sum;
  }
  std::size_t longest() const {
    std::size_t longest = text.size();
    for (const Range& range : ranges) {
      longest = std::max({longest, range.width, std::to_string(range.high).size()});
    }
    return longest;
  }
};

template <class T>
std::optional<T> ShortNumber(std::string_view text) {
  return text.size() <= kMaxDigits ? ParseNumber<T>(text) : std::nullopt;
}

Error Refuse(std::string_view item, const std::string& why) {
  constexpr std::size_t kShown = 80;
  const std::string shown(item.substr(0, kShown));
  return Invalid("not a list of hosts: " + why, shown + (item.size() > kShown ? "..." : ""));
}

// "001-003,010" between brackets.
Result<std::vector<Range>> ParseRanges(std::string_view item, std::string_view inside) {
  std::vector<Range> ranges;
  while (true) {
    const std::size_t comma = std::min(inside.find(','), inside.size());
    const std::string_view one = inside.substr(0, comma);
    const std::size_t dash = one.find('-');
    const std::string_view low = one.substr(0, dash);
    const auto from = ShortNumber<std::uint64_t>(low);
    const auto to =
        dash == std::string_view::npos ? from : ShortNumber<std::uint64_t>(one.substr(dash + 1));
    if (!from || !to || *from > *to) {
      return Refuse(item, "a bracket holds numbers and ranges LOW-HIGH");
    }
    ranges.push_back({*from, *to, low.size()});
    if (comma == inside.size()) {
      return ranges;
    }
    inside.remove_prefix(comma + 1);
  }
}

Result<std::vector<Piece>> ParseItem(std::string_view item) {
  std::vector<Piece> pieces;
  std::string_view rest = item;
  while (!rest.empty()) {
    const std::size_t open = std::min(rest.find('['), rest.size());
    if (open > 0) {
      pieces.push_back({rest.substr(0, open), {}});
      if (pieces.back().text.find(']') != std::string_view::npos) {
        return Refuse(item, "a bracket is closed that is not open");
      }
    }
    rest.remove_prefix(open);
    if (rest.empty()) {
      break;
    }
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) {
      return Refuse(item, "a bracket is not closed");
    }
    ASSIGN_OR_RETURN(std::vector<Range> ranges, ParseRanges(item, rest.substr(1, close - 1)));
    pieces.push_back({{}, std::move(ranges)});
    rest.remove_prefix(close + 1);
  }
  return pieces;
}

std::string Padded(std::uint64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits;
}

// Every name so far with every text of `piece` behind it.
std::vector<std::string> Extend(const std::vector<std::string>& names, const Piece& piece) {
  std::vector<std::string> longer;
  longer.reserve(names.size() * piece.size());
  for (const std::string& name : names) {
    if (piece.ranges.empty()) {
      longer.push_back(name + std::string(piece.text));
    }
    for (const Range& range : piece.ranges) {
      for (std::uint64_t number = range.low; number <= range.high; ++number) {
        longer.push_back(name + Padded(number, range.width));
      }
    }
  }
  return longer;
}

// The end of the item that begins at `begin`: a comma or a blank outside of brackets.
std::size_t EndOfItem(std::string_view text, std::size_t begin) {
  bool inside = false;
  std::size_t end = begin;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    inside = c == '[' || (inside && c != ']');
    if (!inside && (c == ',' || c == ' ' || c == '\t' || c == '\n')) {
      break;
    }
  }
  return end;
}

}  // namespace

Result<std::vector<std::string>> ExpandHostlist(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = EndOfItem(text, begin);
    const std::string_view item = text.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<Piece> pieces, ParseItem(item));
    std::size_t count = 1;
    std::size_t length = 0;
    for (const Piece& piece : pieces) {
      count = std::min(kMaxHosts + 1, count * piece.size());
      length += piece.longest();
    }
    if (hosts.size() + count > kMaxHosts) {
      return Refuse(item, "more than " + std::to_string(kMaxHosts) + " hosts");
    }
    if (length > kMaxHostName) {
      return Refuse(item, "a name longer than " + std::to_string(kMaxHostName) + " characters");
    }
    std::vector<std::string> names = {""};
    for (const Piece& piece : pieces) {
      names = Extend(names, piece);
    }
    std::move(names.begin(), names.end(), std::back_inserter(hosts));
  }
  return hosts;
}

Result<std::vector<std::uint32_t>> ExpandCounts(std::string_view text) {
  const auto bad = [&] {
    return Invalid("not a list of counts such as 2(x3),1", text.substr(0, kMaxHostName));
  };
  std::vector<std::uint32_t> counts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view item = text.substr(begin, end - begin);
    begin = end + 1;
    std::optional<std::uint32_t> times = 1;
    if (const std::size_t open = item.find("(x"); open != std::string_view::npos) {
      if (item.back() != ')') {
        return bad();
      }
      times = ShortNumber<std::uint32_t>(item.substr(open + 2, item.size() - open - 3));
      item = item.substr(0, open);
    }
    const std::optional<std::uint32_t> count = ShortNumber<std::uint32_t>(item);
    if (!count || !times || counts.size() + *times > kMaxHosts) {
      return bad();
    }
    counts.insert(counts.end(), *times, *count);
  }
  return counts;
}

}  // namespace ddprun
