#include "common/text.h"

#include <algorithm>

namespace ddprun {

std::optional<std::uint64_t> NumberOfRecord(std::string_view name, std::string_view prefix,
                                            std::uint64_t most) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  name.remove_prefix(prefix.size());
  const auto number = ParseNumber<std::uint64_t>(name);
  // "fence-07" is no record: the writer of record 7 would not see it.
  const bool valid = number && *number > 0 && *number <= most && std::to_string(*number) == name;
  return valid ? number : std::nullopt;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string Joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    text.append(text.empty() ? "" : between).append(part);
  }
  return text;
}

std::size_t StartOfLastLines(std::string_view text, std::size_t lines) {
  std::size_t at = text.size();
  for (; lines > 0 && at > 0; --lines) {
    const std::size_t before = text.substr(0, at - 1).rfind('\n');
    at = before == text.npos ? 0 : before + 1;
  }
  return at;
}

std::string Shortened(std::string text, std::size_t most) {
  constexpr std::string_view kRest = "...";
  if (text.size() <= most) {
    return text;
  }
  std::size_t end = most - kRest.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end).append(kRest);
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

void ReplaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace ddprun
