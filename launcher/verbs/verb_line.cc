#include "launcher/verbs/verb_line.h"

#include <utility>

namespace ddprun {

VerbLine::VerbLine(const std::string& what, const std::vector<std::string>& args, std::string words)
    : app(what, "ddprun " + args.front()),
      flags(app),
      args_(args.begin() + 1, args.end()),
      words_(std::move(words)) {
  app.set_help_flag();
  flags.Switch("-h,--help", help, "This help");
}

std::string VerbLine::Help() const {
  std::string text = app.help();
  const std::string usage = "Usage: " + app.get_name() + " [OPTIONS]";
  if (const std::size_t at = text.find(usage); at != text.npos) {
    text.insert(at + usage.size(), words_);
  }
  return text;
}

Result<void> VerbLine::Outcome() const {
  if (problems.text.empty()) {
    return {};
  }
  return Error{ErrorKind::kInvalid, WithOrigins(problems.text, settings)};
}

void VerbLine::Parse(const GetEnv& get_env) {
  std::vector<Setting> given;
  for (std::vector<std::string> left = args_; !left.empty();) {
    const Result<SplitLine> line = SplitFlags(app, left);
    if (!line) {
      return problems.Check(line);
    }
    given.insert(given.end(), line->settings.begin(), line->settings.end());
    const bool more = !line->rest.empty();
    rest.insert(rest.end(), line->rest.begin(), line->rest.begin() + (more ? 1 : 0));
    left.assign(line->rest.begin() + (more ? 1 : 0), line->rest.end());
  }
  settings = LayOver(app, {SettingsFromEnvironment(app, get_env), given});
  ApplySettings(app, settings, problems);
}

void VerbLine::RefuseWords(std::size_t most) {
  if (rest.size() > most) {
    problems.Add(Invalid("unexpected argument", rest[most]));
  }
}

bool VerbLine::ParseUpToProgram() {
  const Result<SplitLine> line = SplitFlags(app, args_);
  problems.Check(line);
  if (line) {
    rest = line->rest;
    settings = line->settings;
    ApplySettings(app, settings, problems);
  }
  return line.has_value();
}

}  // namespace ddprun
