#include "launcher/command_line/config_file.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "common/log.h"
#include "common/text.h"
#include "launcher/command_line/given_file.h"
#include "launcher/command_line/removed.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxSettingsFile = 1 << 20;
constexpr const char* kHere = "ddprun.toml";

// The part before a # that stands outside of quotes.
std::string WithoutComment(const std::string& line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote == 0 && line[i] == '#') {
      return line.substr(0, i);
    }
    if (quote == 0 && (line[i] == '"' || line[i] == '\'')) {
      quote = line[i];
    } else if (quote == '"' && line[i] == '\\') {
      ++i;
    } else if (line[i] == quote) {
      quote = 0;
    }
  }
  return line;
}

// "two words", 'as it is', or one bare word: number, true, false. Of TOML's escapes \" and
// \\ alone.
std::optional<std::string> Value(const std::string& text) {
  const char quote = text.empty() ? '\0' : text.front();
  if (quote != '"' && quote != '\'') {
    const bool bare = !text.empty() && text.find_first_of("\"'[]{}, \t") == std::string::npos;
    return bare ? std::optional(text) : std::nullopt;
  }
  std::string value;
  std::size_t i = 1;
  for (; i < text.size() && text[i] != quote; ++i) {
    const bool escape = quote == '"' && text[i] == '\\';
    if (escape && (++i == text.size() || (text[i] != '"' && text[i] != '\\'))) {
      return std::nullopt;
    }
    value += text[i];
  }
  return i + 1 == text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<std::vector<Setting>> ParseConfigFile(const CLI::App& app, const std::string& name,
                                             const std::string& text) {
  std::vector<Setting> settings;
  const std::string mark = "\xef\xbb\xbf";  // Some editors put it before UTF-8.
  std::stringstream stream(text.starts_with(mark) ? text.substr(mark.size()) : text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    line = Trimmed(WithoutComment(line));
    const std::string where = name + ":" + std::to_string(number);
    const auto bad = [&](const std::string& what) {
      return Error{ErrorKind::kInvalid, where + ": " + InOneLine(what)};
    };
    if (line.find('\0') != std::string::npos) {
      return bad("the line contains a zero byte");
    }
    if (line.empty()) {
      continue;
    }
    const std::size_t equals = line.find('=');
    if (line.front() == '[' || equals == std::string::npos) {
      return bad("expected `name = value`, as in `nproc-per-node = 2`: '" + line + "'");
    }
    std::string key(Trimmed(line.substr(0, equals)));
    std::replace(key.begin(), key.end(), '_', '-');
    if (const auto why = WhyRefused("--" + key)) {
      return bad(*why);
    }
    const CLI::Option* const option = key.empty() ? nullptr : app.get_option_no_throw("--" + key);
    if (option == nullptr || key == "config" || key == "help" || key == "version" ||
        key == "print-completion") {
      return bad("unknown name '" + key + "': use the names of the flags (ddprun --help)");
    }
    const auto before = std::ranges::find(settings, NameOf(option), &Setting::name);
    if (before != settings.end() &&
        option->get_multi_option_policy() != CLI::MultiOptionPolicy::Join) {
      return bad("'" + key + "' is set at " + before->origin + " too");
    }
    const std::optional<std::string> value = Value(std::string(Trimmed(line.substr(equals + 1))));
    const bool is_flag = option->get_items_expected_max() == 0;
    if (!value || (is_flag && *value != "true" && *value != "false")) {
      return bad(is_flag ? "'" + key + "' must be true or false"
                         : "the value of '" + key +
                               "' must be one number or word, or be in quotes (in single quotes, "
                               "if it has a backslash)");
    }
    settings.push_back({NameOf(option), *value, where});
  }
  return settings;
}

Result<std::vector<Setting>> SettingsFromFile(const CLI::App& app,
                                              const std::optional<std::string>& named,
                                              bool look_here) {
  std::error_code ignored;
  const bool given = named && !named->empty();
  const auto here = [&] {  // Also a link to nothing, whose settings would be missed.
    return std::filesystem::exists(std::filesystem::symlink_status(kHere, ignored));
  };
  if (!given && !(look_here && here())) {
    return std::vector<Setting>{};
  }
  const std::string path = given ? *named : kHere;
  const Result<std::string> text = ReadGiven(path, kMaxSettingsFile, {.say = SayWait});
  if (!text) {
    return Error{ErrorKind::kInvalid,
                 InOneLine(text.error().message) + (given ? " (--config)" : "")};
  }
  return ParseConfigFile(app, path, *text);
}

}  // namespace ddprun
