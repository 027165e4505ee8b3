// The rows of a table of flags: a flag's name, the form of its value, what the value sets, its
// default and its help. CLI11 holds the table and hands each value to its row.
//
// In a form, small letters are words to choose from and capitals stand for a value: "N|auto|cpu".
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/result.h"
#include "common/time.h"

namespace ddprun {

// The words of a form.
std::vector<std::string> WordsOf(const std::string& form);

// Sets what a text means, or says what the flag takes.
using ReadText = std::function<Result<void>(const std::string& text)>;

inline constexpr std::uint32_t kMostOfAJob = 100'000;  // Of whatever it is made of.

// Adds rows to `app`. The fields that they set must outlive it.
class FlagRows {
 public:
  // `group`: the rows' headline in the help, which then shows their defaults too. Empty: neither.
  explicit FlagRows(CLI::App& app, std::string group = "") : app_(app), group_(std::move(group)) {}

  CLI::Option* Value(const char* flag, std::string& value, const char* form, const char* help);
  // Two words, of which the first leaves `value` as it is, and the second negates it.
  CLI::Option* Value(const char* flag, bool& value, const char* form, const char* help);
  // 0 or more.
  CLI::Option* Value(const char* flag, std::uint32_t& value, const char* form, const char* help);
  CLI::Option* Value(const char* flag, Duration& value, const char* form, const char* help);
  // Whole seconds, 1 or more, for a program that takes no other time.
  CLI::Option* Seconds(const char* flag, std::uint32_t& value, const char* help);
  // One word for each value of an enumeration, in its order.
  template <class Enumeration>
  CLI::Option* Choice(const char* flag, Enumeration& value, const char* form, const char* help) {
    return Read(flag, WordsOf(form).at(static_cast<std::size_t>(value)), form, help,
                [flag, form, &value](const std::string& text) -> Result<void> {
                  ASSIGN_OR_RETURN(const std::size_t place, PlaceOfWord(flag, form, text));
                  value = static_cast<Enumeration>(place);
                  return {};
                });
  }
  // From `least` to kMostOfAJob.
  template <class T>
  CLI::Option* Count(const char* flag, T& value, std::uint32_t least, const char* form,
                     const char* help) {
    return Read(flag, value, "", form, help, std::bind_front(ParseCount, flag, least));
  }
  // Sets `value` to what `parse` makes of the text.
  template <class T, class Parse>
  CLI::Option* Read(const char* flag, T& value, const std::string& fallback, const char* form,
                    const char* help, Parse parse) {
    return Read(flag, fallback, form, help, [&value, parse](const std::string& text) {
      auto parsed = parse(text);
      return parsed ? (value = *std::move(parsed), Result<void>()) : parsed.error();
    });
  }
  // The default is read at once. If there is none, an empty text is no value: a variable of the
  // user's that is not set, perhaps.
  CLI::Option* Read(const char* flag, const std::string& fallback, const char* form,
                    const char* help, const ReadText& read);
  CLI::Option* Switch(const char* flag, bool& value, const char* help);

 private:
  static Result<std::size_t> PlaceOfWord(const std::string& flag, const std::string& form,
                                         const std::string& text);
  static Result<std::uint32_t> ParseCount(const std::string& flag, std::uint32_t least,
                                          const std::string& text);
  CLI::Option* InGroup(CLI::Option* option) const;

  CLI::App& app_;
  const std::string group_;
};

// One flag as a text, for help and documentation.
struct FlagRow {
  std::string name;                  // Without dashes; empty: it has only a short name.
  std::vector<std::string> aliases;  // Other long names. Mostly none.
  std::string short_name;            // Mostly empty.
  std::string form;                  // Of its value; empty: it takes no value.
  std::vector<std::string> choices;  // The words in `form`.
  std::string fallback;              // Its default; empty: none, or `help` has it.
  std::string group;
  std::string help;

  std::string Spelling() const;  // "-r, --redirects BITS"
};

// In the order of the help.
std::vector<FlagRow> RowsOf(const CLI::App& app);

}  // namespace ddprun
