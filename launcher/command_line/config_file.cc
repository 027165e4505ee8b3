#include "launcher/command_line/config_file.h"

#include <re2/re2.h>

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

// "two words", 'as it is', or one bare word: number, true, false. A comment may follow. Of TOML's
// escapes \" and \\ alone.
std::optional<std::string> Value(std::string_view text) {
  static const RE2 form(
      R"re((?:"((?:[^"\\]|\\["\\])*)"|'([^']*)'|([^#"'\[\]{}, \t]+))\s*(?:#.*)?)re", RE2::Latin1);
  std::string escaped;
  std::string as_it_is;
  std::string bare;
  if (!RE2::FullMatch(text, form, &escaped, &as_it_is, &bare)) {
    return std::nullopt;
  }
  RE2::GlobalReplace(&escaped, R"(\\(.))", R"(\1)");
  return escaped + as_it_is + bare;  // One of them is there.
}

}  // namespace

Result<std::vector<Setting>> ParseConfigFile(const CLI::App& app, const std::string& name,
                                             const std::string& text) {
  std::vector<Setting> settings;
  const std::string mark = "\xef\xbb\xbf";  // Some editors put it before UTF-8.
  std::stringstream stream(text.starts_with(mark) ? text.substr(mark.size()) : text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    line = std::string(Trimmed(line));
    const std::string where = name + ":" + std::to_string(number);
    const auto bad = [&](const std::string& what) {
      return Error{ErrorKind::kInvalid, where + ": " + InOneLine(what)};
    };
    if (line.find('\0') != std::string::npos) {
      return bad("the line contains a zero byte");
    }
    if (line.empty() || line.front() == '#') {
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
    const std::optional<std::string> value =
        Value(Trimmed(std::string_view(line).substr(equals + 1)));
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
