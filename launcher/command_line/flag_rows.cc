#include "launcher/command_line/flag_rows.h"

#include <algorithm>
#include <chrono>

#include "common/check.h"
#include "common/text.h"
#include "launcher/command_line/config.h"
#include "launcher/command_line/problems.h"

namespace ddprun {
namespace {

// "--redirects" of "-r,--redirects".
std::string LongName(const std::string& flag) {
  const std::size_t begin = flag.find("--");
  return flag.substr(begin, flag.find(',', begin) - begin);
}

// "restart, fail or observe"
std::string InWords(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) {
    text += (i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

}  // namespace

std::vector<std::string> WordsOf(const std::string& form) {
  std::vector<std::string> words;
  for (const std::string& word : Split(form, '|')) {
    if (std::none_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
      words.push_back(word);
    }
  }
  return words;
}

Result<std::size_t> FlagRows::PlaceOfWord(const std::string& flag, const std::string& form,
                                          const std::string& text) {
  const std::vector<std::string> words = WordsOf(form);
  const auto found = std::ranges::find(words, text);
  if (found == words.end()) {
    return Invalid(LongName(flag) + " must be " + InWords(words), text);
  }
  return static_cast<std::size_t>(found - words.begin());
}

Result<std::uint32_t> FlagRows::ParseCount(const std::string& flag, std::uint32_t least,
                                           const std::string& text) {
  const auto number = NotNegative(text);
  if (!number || *number < least || *number > kMostOfAJob) {
    return Invalid(LongName(flag) + " must be a number from " + std::to_string(least) + " to " +
                       std::to_string(kMostOfAJob),
                   text);
  }
  return *number;
}

CLI::Option* FlagRows::Value(const char* flag, std::string& value, const char* form,
                             const char* help) {
  return Read(flag, value, value, form, help,
              [](const std::string& text) { return Result<std::string>(text); });
}

CLI::Option* FlagRows::Value(const char* flag, bool& value, const char* form, const char* help) {
  return Read(flag, value, WordsOf(form).front(), form, help,
              [flag, form, usual = value](const std::string& text) -> Result<bool> {
                ASSIGN_OR_RETURN(const std::size_t place, PlaceOfWord(flag, form, text));
                return place == 0 ? usual : !usual;
              });
}

CLI::Option* FlagRows::Value(const char* flag, std::uint32_t& value, const char* form,
                             const char* help) {
  return Read(flag, value, std::to_string(value), form, help,
              [flag](const std::string& text) -> Result<std::uint32_t> {
                const auto number = NotNegative(text);
                return number ? Result<std::uint32_t>(*number)
                              : Invalid(LongName(flag) + " must be 0 or more", text);
              });
}

CLI::Option* FlagRows::Value(const char* flag, Duration& value, const char* form,
                             const char* help) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(value).count();
  return Read(flag, value, std::to_string(seconds), form, help,
              std::bind_front(ParseDuration, flag));
}

CLI::Option* FlagRows::Seconds(const char* flag, std::uint32_t& value, const char* help) {
  return Read(flag, value, "", "DURATION", help,
              [flag](const std::string& text) -> Result<std::uint32_t> {
                ASSIGN_OR_RETURN(const Duration time, ParseDuration(flag, text));
                const auto whole = std::chrono::floor<std::chrono::seconds>(time);
                return whole == time && whole.count() > 0
                           ? Result<std::uint32_t>(static_cast<std::uint32_t>(whole.count()))
                           : Invalid(LongName(flag) + " must be whole seconds, 1 or more", text);
              });
}

CLI::Option* FlagRows::Read(const char* flag, const std::string& fallback, const char* form,
                            const char* help, const ReadText& read) {
  CHECK(fallback.empty() || read(fallback));
  const auto set = [none = fallback.empty(), read](const std::string& text) {
    const Result<void> done = none && text.empty() ? Result<void>() : read(text);
    if (!done) {
      throw CLI::ValidationError(done.error().message);
    }
  };
  CLI::Option* const option =
      app_.add_option_function<std::string>(flag, set, help)->type_name(form);
  return InGroup(group_.empty() ? option : option->default_str(fallback));
}

CLI::Option* FlagRows::Switch(const char* flag, bool& value, const char* help) {
  return InGroup(app_.add_flag(flag, value, help));
}

// Of a flag that is given twice the later one counts, as everywhere.
CLI::Option* FlagRows::InGroup(CLI::Option* option) const {
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return group_.empty() ? option : option->group(group_);
}

std::string FlagRow::Spelling() const {
  const std::string dashed = name.empty() ? "" : "--" + name;
  const std::string both = short_name.empty() ? "" : "-" + short_name + (name.empty() ? "" : ", ");
  return both + dashed + (form.empty() ? "" : " " + form);
}

std::vector<FlagRow> RowsOf(const CLI::App& app) {
  std::vector<FlagRow> rows;
  for (const CLI::Option* option : app.get_options()) {
    const bool valued = option->get_items_expected_max() > 0;
    FlagRow row;
    row.name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    row.short_name = option->get_snames().empty() ? "" : option->get_snames().front();
    row.form = valued ? option->get_type_name() : "";
    row.choices = WordsOf(row.form);
    row.fallback = valued ? option->get_default_str() : "";
    row.group = option->get_group();
    row.help = option->get_description();
    const std::vector<std::string>& names = option->get_lnames();
    row.aliases.assign(names.begin() + (names.empty() ? 0 : 1), names.end());
    for (const std::string& alias : row.aliases) {
      row.help += (&alias == &row.aliases.front() ? ". Also --" : ", --") + alias;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ddprun
