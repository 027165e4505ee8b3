#include "launcher/verbs/verb_line.h"

#include "launcher/command_line/flags.h"

namespace ddprun {
VerbLine::VerbLine(const std::string& what, const std::string& verb, const std::string& words)
    : app(what, "ddprun " + verb), words_(words) {
  app.set_help_flag();
  app.add_flag("-h,--help", help, "This help");
}

std::string VerbLine::Help() const {
  std::string text = app.help();
  const std::string usage = "Usage: " + app.get_name() + " [OPTIONS]";
  if (const std::size_t at = text.find(usage); at != text.npos) {
    text.insert(at + usage.size(), words_);
  }
  return text;
}

Result<void> VerbLine::Parse(const std::vector<std::string>& args, const GetEnv& get_env) {
  std::vector<std::string> left(args.begin() + 1, args.end());
  std::vector<Setting> given;
  while (!left.empty()) {
    ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, left));
    given.insert(given.end(), line.settings.begin(), line.settings.end());
    left.clear();
    if (!line.rest.empty()) {
      rest.push_back(line.rest.front());
      left.assign(line.rest.begin() + 1, line.rest.end());
    }
  }
  settings = LayOver({SettingsFromEnvironment(app, get_env), given});
  if (const Result<void> parsed = ParseFlags(app, ToArguments(settings)); !parsed) {
    return Error{parsed.error().kind, WithOrigins(parsed.error().message, settings)};
  }
  return {};
}

Result<std::vector<Setting>> VerbLine::ParseUpToProgram(const std::vector<std::string>& args) {
  ASSIGN_OR_RETURN(SplitLine line,
                   SplitFlags(app, std::vector<std::string>(args.begin() + 1, args.end())));
  rest = std::move(line.rest);
  RETURN_IF_ERROR(ParseFlags(app, ToArguments(line.settings)));
  return std::move(line.settings);
}

void TakeNumber(const std::string& flag, const std::string& text, std::uint32_t least,
                std::uint32_t& value, Problems& problems) {
  if (text.empty()) {
    return;
  }
  const auto number = NotNegative(text);
  if (!number || *number < least || *number > kMostOfAJob) {
    problems.Add(flag + " must be a number from " + std::to_string(least) + " to " +
                 std::to_string(kMostOfAJob) + ": '" + text + "'");
    return;
  }
  value = *number;
}

}  // namespace ddprun
