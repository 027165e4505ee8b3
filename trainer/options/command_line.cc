#include "trainer/options/command_line.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/text.h"

namespace ddprun {
namespace {

// CLI11 would take the next word as the value, whatever it is.
std::vector<std::string> EmptyValues(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> problems;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--") || !word.ends_with('=')) {
      continue;
    }
    const CLI::Option* const option = app.get_option_no_throw(word.substr(0, word.size() - 1));
    if (option != nullptr && option->get_items_expected_max() > 0) {
      problems.push_back(word + " has no value");
    }
  }
  return problems;
}

}  // namespace

void CheckWord(std::vector<std::string>& problems, bool known, const std::string& flag,
               const std::string& words, const std::string& value) {
  if (!known) {
    problems.push_back(flag + " must be " + words + ", not '" + value + "'");
  }
}

void CheckTime(std::vector<std::string>& problems, const std::string& flag,
               const std::string& value, Duration least, Duration most) {
  const std::optional<Duration> time = DurationOf(value);
  if (!time) {
    CheckWord(problems, false, flag, "a time such as " + std::string(kTimeForms), value);
  } else {
    CheckWord(problems, *time >= least && *time <= most, flag,
              FormatDuration(least) + " to " + FormatDuration(most), value);
  }
}

void CheckCollectiveTimeout(std::vector<std::string>& problems, const std::string& value) {
  CheckTime(problems, "--collective-timeout", value, std::chrono::seconds(1),
            std::chrono::hours(24));
}

EarlyExit WrongCommandLine(const CLI::App& app, const std::vector<std::string>& problems) {
  const std::string& name = app.get_name();
  std::string text;
  for (const std::string& problem : problems) {
    text += name + ": error: " + InOneLine(problem) + "\n";
  }
  return {kExitUsage, text + name + ": nothing was started; see " + name + " --help\n"};
}

std::optional<EarlyExit> ParseWords(CLI::App& app, int argc, const char* const* argv) {
  if (const std::vector<std::string> problems = EmptyValues(app, argc, argv); !problems.empty()) {
    return WrongCommandLine(app, problems);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    std::ostringstream ignored;
    app.exit(success, text, ignored);
    return EarlyExit{kExitOk, text.str()};
  } catch (const CLI::ExtrasError&) {
    return WrongCommandLine(app, {"unknown argument '" + app.remaining().front() + "'"});
  } catch (const CLI::ConversionError& error) {
    // "Could not convert: --lr = x"
    const std::string text = error.what();
    const std::size_t name = text.find("--");
    const std::size_t value = text.find(" = ");
    if (name >= value || value == text.npos) {
      return WrongCommandLine(app, {text});
    }
    return WrongCommandLine(app, {text.substr(name, value - name) + " does not take the value '" +
                                  text.substr(value + 3) + "'"});
  } catch (const CLI::ParseError& error) {
    return WrongCommandLine(app, {error.what()});
  }
  return std::nullopt;
}

}  // namespace ddprun
