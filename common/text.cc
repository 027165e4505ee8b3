#include "common/text.h"

#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/replace.hpp>
#include <cmath>
#include <locale>

namespace ddprun {
namespace {

// A time too short for a millisecond is one, since 0 means "never" to many flags.
Duration FromSeconds(double seconds) {
  const auto rounded = static_cast<Duration::rep>(std::llround(seconds * 1000));
  return Duration(seconds > 0 ? std::max<Duration::rep>(1, rounded) : 0);
}

// Seconds of "01:30:00".
std::optional<double> OfClock(std::string_view text) {
  const std::vector<std::string> parts = Split(text, ':');
  if (parts.size() != 3) {
    return std::nullopt;
  }
  const auto hours = ParseNumber<std::uint32_t>(parts[0]);
  const auto minutes = ParseNumber<std::uint32_t>(parts[1]);
  const auto seconds = ParseNumber<std::uint32_t>(parts[2]);
  if (!hours || !minutes || !seconds || *minutes > 59 || *seconds > 59) {
    return std::nullopt;
  }
  return *hours * 3600.0 + *minutes * 60.0 + *seconds;
}

// Seconds of "1h30m": numbers with units, each smaller than the one before.
std::optional<double> OfUnits(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"d", 86400}, {"h", 3600}, {"min", 60}, {"m", 60}, {"s", 1}, {"ms", 0.001}};
  double sum = 0;
  double last = 86401;
  while (!text.empty()) {
    const std::size_t letters = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t end = std::min(text.find_first_of("0123456789.", letters), text.size());
    const auto number = ParseNumber<double>(text.substr(0, letters));
    const auto unit = std::ranges::find(kUnits, text.substr(letters, end - letters),
                                        &std::pair<std::string_view, double>::first);
    if (!number || unit == std::end(kUnits) || unit->second >= last) {
      return std::nullopt;
    }
    last = unit->second;
    sum += *number * last;
    text.remove_prefix(end);
  }
  return sum;
}

}  // namespace

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

std::optional<Duration> DurationOf(std::string_view text) {
  auto seconds = ParseNumber<double>(text);
  seconds = seconds ? seconds : OfClock(text);
  seconds = seconds || text.empty() ? seconds : OfUnits(text);
  const bool valid = seconds && *seconds >= 0 && *seconds <= 1e9;  // Neither NaN.
  return valid ? std::optional(FromSeconds(*seconds)) : std::nullopt;
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

std::string Lowercase(std::string text) {
  return boost::algorithm::to_lower_copy(text, std::locale::classic());
}

std::string Uppercase(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsDigit);
}

bool HasOnly(std::string_view text, std::string_view more) {
  return !text.empty() && std::ranges::all_of(text, [more](char c) {
    return IsLetterOrDigit(c) || more.find(c) != more.npos;
  });
}

void ReplaceAll(std::string& text, std::string_view what, std::string_view with) {
  boost::algorithm::replace_all(text, what, with);
}

}  // namespace ddprun
