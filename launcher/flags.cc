#include "launcher/flags.h"

#include <algorithm>
#include <cctype>

namespace ddprun {
namespace {

bool TakesValue(const CLI::Option* option) {
  return option->get_items_expected_max() > 0;
}

std::vector<std::string> LongNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back(name);
    }
  }
  return names;
}

// Levenshtein's distance; names are short.
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

Error Unknown(const std::vector<std::string>& names, const std::string& name) {
  std::string text = "unknown option --" + name;
  const auto nearest = std::min_element(
      names.begin(), names.end(),
      [&](const auto& a, const auto& b) { return Distance(a, name) < Distance(b, name); });
  if (nearest != names.end() &&
      Distance(*nearest, name) <= std::min<std::size_t>(3, name.size() / 2)) {
    text += "; did you mean --" + *nearest + "?";
  }
  return {ErrorKind::kInvalid, text + " (ddprun --help lists all)"};
}

// CLI11 would take the next word for the value that "--name=" lacks.
void Append(std::vector<std::string>& flags, const std::string& name, const std::string& value) {
  if (value.empty()) {
    flags.insert(flags.end(), {name, ""});
  } else {
    flags.push_back(name + (name.starts_with("--") ? "=" : "") + value);
  }
}

// The one known name that `given` is, or is a prefix of.
Result<std::string> Canonical(const std::vector<std::string>& names, std::string given) {
  std::replace(given.begin(), given.end(), '_', '-');
  if (std::find(names.begin(), names.end(), given) != names.end()) {
    return given;
  }
  std::vector<std::string> matches;
  std::copy_if(names.begin(), names.end(), std::back_inserter(matches),
               [&](const std::string& name) { return name.starts_with(given); });
  if (matches.size() == 1 && !given.empty()) {
    return matches.front();
  }
  if (matches.size() > 1 && !given.empty()) {
    std::string text = "--" + given + " is ambiguous: it could be";
    for (const std::string& match : matches) {
      text += " --" + match;
    }
    return Error{ErrorKind::kInvalid, text};
  }
  return Unknown(names, given);
}

}  // namespace

std::vector<std::string> FlagsFromFile(const CLI::App& app, const std::vector<Setting>& settings) {
  std::vector<std::string> found;
  for (const Setting& setting : settings) {
    if (app.get_option("--" + setting.name)->count() == 0) {
      Append(found, "--" + setting.name, setting.value);
    }
  }
  return found;
}

Result<SplitLine> SplitFlags(const CLI::App& app, const std::vector<std::string>& args) {
  const std::vector<std::string> names = LongNames(app);
  SplitLine line;
  std::size_t i = 0;
  for (; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      ++i;
      break;
    }
    if (arg.size() < 2 || arg.front() != '-') {
      break;
    }
    std::string name = arg.substr(0, 2);
    std::optional<std::string> value;
    if (arg.starts_with("--")) {
      const std::size_t equals = arg.find('=');
      ASSIGN_OR_RETURN(const std::string canonical, Canonical(names, arg.substr(2, equals - 2)));
      name = "--" + canonical;
      if (equals != std::string::npos) {
        value = arg.substr(equals + 1);
      }
    } else if (arg.size() > 2) {
      value = arg.substr(arg[2] == '=' ? 3 : 2);  // "-r3", "-r=3"
    }
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) {
      return Error{ErrorKind::kInvalid, "unknown option " + arg + " (ddprun --help lists all)"};
    }
    if (TakesValue(option) && !value) {
      if (i + 1 == args.size()) {
        return Error{ErrorKind::kInvalid, "option " + name + " needs a value"};
      }
      value = args[++i];
    }
    if (value) {
      Append(line.flags, name, *value);
    } else {
      line.flags.push_back(name);
    }
  }
  line.rest.assign(args.begin() + static_cast<std::ptrdiff_t>(std::min(i, args.size())),
                   args.end());
  return line;
}

std::vector<std::string> FlagsFromEnvironment(const CLI::App& app,
                                              const std::vector<std::string>& flags,
                                              const GetEnv& get_env) {
  std::vector<std::string> found;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") {
      continue;
    }
    const std::string& name = option->get_lnames().front();
    const bool given = std::any_of(flags.begin(), flags.end(), [&](const std::string& flag) {
      const bool by_short = std::any_of(
          option->get_snames().begin(), option->get_snames().end(),
          [&](const std::string& s) { return flag.size() >= 2 && flag.substr(0, 2) == "-" + s; });
      return flag == "--" + name || flag.starts_with("--" + name + "=") || by_short;
    });
    std::string variable = name;
    for (char& c : variable) {
      c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    std::optional<std::string> value = get_env("DDPRUN_" + variable);
    if (!value) {
      value = get_env("PET_" + variable);
    }
    const bool says_nothing = value && value->empty() && !TakesValue(option);
    if (given || !value || says_nothing) {
      continue;
    }
    Append(found, "--" + name, *value);
  }
  return found;
}

}  // namespace ddprun
