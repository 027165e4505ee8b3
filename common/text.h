// Lists, numbers and times in text that people or other programs wrote.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/time.h"

namespace ddprun {

// Nothing: not all of the text is the number.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && parsed == end ? std::optional(value) : std::nullopt;
}

// The meaning of the text, which should be one of these words. nullopt: it is none of them.
template <class T>
std::optional<T> MeaningOf(std::string_view text,
                           std::initializer_list<std::pair<std::string_view, T>> words) {
  for (const auto& [word, meaning] : words) {
    if (text == word) {
      return meaning;
    }
  }
  return std::nullopt;
}

// The number of a record whose file is named "<prefix><number>": from 1 to `most`, and in its one
// spelling. Nothing: it is another file.
std::optional<std::uint64_t> NumberOfRecord(std::string_view name, std::string_view prefix,
                                            std::uint64_t most);

inline constexpr const char* kTimeForms = "30, 500ms, 90s, 5m, 1h30m, 1d or 01:30:00";

// A time in one of these forms; without a unit: seconds, fractions too. Nothing: it is none.
std::optional<Duration> DurationOf(std::string_view text);

// "0-2,5" of ascending numbers.
template <class Numbers>
std::string RangesOf(const Numbers& numbers, const char* between) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const auto first = *at;
    auto last = first;
    while (++at != numbers.end() && *at == last + 1) {
      last = *at;
    }
    text += (text.empty() ? "" : between) + std::to_string(first);
    text += last == first ? "" : "-" + std::to_string(last);
  }
  return text;
}

// An empty last part is none.
std::vector<std::string> Split(std::string_view text, char separator);

std::string Joined(const std::vector<std::string>& parts, std::string_view between);

// Where the last `lines` lines of a text begin. The last line may have no end.
std::size_t StartOfLastLines(std::string_view text, std::size_t lines);

// At most `most` bytes of a text for people, in whole characters; "..." stands for the rest.
std::string Shortened(std::string text, std::size_t most);

// Without the blanks and ends of lines around it.
std::string_view Trimmed(std::string_view text);

// Of ASCII alone, in every locale.
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool IsLetterOrDigit(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
std::string Lowercase(std::string text);
std::string Uppercase(std::string text);

bool IsDigits(std::string_view text);  // One or more, and nothing else.
// Not empty, and of letters, digits and the characters of `more` alone.
bool HasOnly(std::string_view text, std::string_view more);

void ReplaceAll(std::string& text, std::string_view what, std::string_view with);

}  // namespace ddprun
