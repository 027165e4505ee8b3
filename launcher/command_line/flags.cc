#include "launcher/command_line/flags.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>

#include "common/check.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/text.h"
#include "launcher/command_line/removed.h"

namespace ddprun {
namespace {

constexpr const char* kOn = "true";

bool TakesValue(const CLI::Option* option) {
  return option->get_items_expected_max() > 0;
}

// Each of its values adds a line.
bool AddsUp(const CLI::App& app, const std::string& name) {
  const CLI::Option* const option = app.get_option_no_throw("--" + name);
  return option != nullptr && option->get_multi_option_policy() == CLI::MultiOptionPolicy::Join;
}

// Without aliases, which neither abbreviations nor suggestions use.
std::vector<std::string> LongNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty()) {
      names.push_back(option->get_lnames().front());
    }
  }
  return names;
}

// The distance of Damerau and Levenshtein, in which no letter is edited twice.
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> row(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        row[i][j] = i + j;
        continue;
      }
      row[i][j] = std::min({row[i - 1][j] + 1, row[i][j - 1] + 1,
                            row[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[i][j] = std::min(row[i][j], row[i - 2][j - 2] + 1);
      }
    }
  }
  return row[a.size()][b.size()];
}

// The flag for which another launcher or scheduler has this name.
std::optional<std::string> NamedElsewhere(const std::vector<std::string>& names,
                                          const std::string& name) {
  constexpr std::pair<const char*, const char*> kElsewhere[] = {
      {"num-processes", "nproc-per-node"},
      {"num-gpus", "nproc-per-node"},
      {"ntasks", "nproc-per-node"},
      {"ntasks-per-node", "nproc-per-node"},
      {"gpus-per-node", "nproc-per-node"},
      {"npernode", "nproc-per-node"},
      {"ppn", "nproc-per-node"},
      {"num-machines", "nnodes"},
      {"num-nodes", "nnodes"},
      {"machine-rank", "node-rank"},
      {"host", "hosts"},
      {"machinefile", "hostfile"},
      {"genv", "env"},
      {"export", "env"},
      {"bind-to", "numa-binding"},
      {"cpu-bind", "numa-binding"},
      {"tag-output", "prefix"},
      {"label", "prefix"},
      {"main-process-ip", "master-addr"},
      {"main-process-port", "master-port"},
      {"max-retries", "max-restarts"},
      {"retries", "max-restarts"},
  };
  const auto found = std::ranges::find(kElsewhere, name, [](const auto& row) { return row.first; });
  const bool known = found != std::end(kElsewhere) && std::ranges::count(names, found->second) > 0;
  return known ? std::optional<std::string>(found->second) : std::nullopt;
}

// Finds the flag that the user meant: the name that other launchers and schedulers use; a typing
// error; or some of its words, as "restarts" of "max-restarts".
std::optional<std::string> Meant(const std::vector<std::string>& names, const std::string& name) {
  if (const auto ours = NamedElsewhere(names, name)) {
    return ours;
  }
  if (const auto nearest = Nearest(names, name)) {
    return nearest;
  }
  const std::string singular = name.ends_with('s') ? name.substr(0, name.size() - 1) : name;
  for (const std::string& word : {name, singular}) {
    std::vector<std::string> matches;
    std::ranges::copy_if(names, std::back_inserter(matches), [&](const std::string& known) {
      return word.size() > 2 && ("-" + known).find("-" + word) != std::string::npos;
    });
    if (matches.size() == 1) {
      return matches.front();
    }
  }
  return std::nullopt;
}

// Advice about an option that only srun or mpirun has; empty: it is none.
std::string OfAnotherTool(const std::string& name) {
  constexpr std::string_view kSrun[] = {"partition", "account",  "qos",        "gres",
                                        "mem",       "nodelist", "constraint", "cpus-per-task",
                                        "job-name",  "exclude",  "exclusive",  "gpus-per-task"};
  constexpr std::string_view kMpirun[] = {"mca", "map-by", "rank-by", "oversubscribe",
                                          "allow-run-as-root"};
  return std::ranges::count(kSrun, name) > 0
             ? "; options of srun go before ddprun: srun --" + name + "=... ddprun ..."
         : std::ranges::count(kMpirun, name) > 0
             ? "; ddprun needs no option of mpirun: leave it out"
             : "";
}

// With a number that was given, the suggestion can be copied as it is. A switch has none.
Error Unknown(const CLI::App& app, const std::vector<std::string>& names, const std::string& name,
              const std::optional<std::string>& value, const std::string& more) {
  std::string text = "unknown option --" + InOneLine(name);
  if (const auto meant = Meant(names, name)) {
    const CLI::Option* const option = app.get_option_no_throw("--" + *meant);
    const bool number =
        value && NotNegative(*value) && option != nullptr && option->get_items_expected_max() > 0;
    text += "; did you mean --" + *meant + (number ? "=" + *value : "") + "?";
  } else if (std::ranges::count(names, "nproc-per-node") > 0) {  // A launch.
    text += OfAnotherTool(name);
  }
  return {ErrorKind::kInvalid, text + more};
}

bool Names(const std::string& text, const std::string& flag) {
  return RE2::PartialMatch(text, RE2(flag + "(?:[^A-Za-z0-9-]|$)", RE2::Latin1));
}

// A variable with its value; a file's line, or what a scheduler's words mean together, without.
std::string OriginInWords(const Setting& setting) {
  const bool variable = RE2::FullMatch(setting.origin, "[A-Z0-9_]*");
  return InOneLine(variable ? setting.origin + "=" + setting.value : setting.origin);
}

// The one known name that `given` is, or is a prefix of; or the alias that it is.
Result<std::string> Canonical(const CLI::App& app, const std::vector<std::string>& names,
                              std::string given, const std::optional<std::string>& value,
                              const std::string& more) {
  std::replace(given.begin(), given.end(), '_', '-');
  if (!given.empty() && app.get_option_no_throw("--" + given) != nullptr) {
    return given;
  }
  if (const auto why = WhyRefused("--" + given)) {
    return Error{ErrorKind::kInvalid, *why};
  }
  std::vector<std::string> matches;
  std::copy_if(names.begin(), names.end(), std::back_inserter(matches),
               [&](const std::string& name) { return name.starts_with(given); });
  if (matches.size() == 1 && !given.empty()) {
    return matches.front();
  }
  if (matches.size() > 1 && !given.empty() && !NamedElsewhere(names, given)) {
    std::string text = "--" + given + " is ambiguous: it could be";
    for (const std::string& match : matches) {
      text += " --" + match;
    }
    return Error{ErrorKind::kInvalid, text};
  }
  return Unknown(app, names, given, value, more);
}

// mpirun's "-hostfile" of "-hostfile=f": the flag that two dashes would name. Of two letters it may
// be a switch with its value.
std::optional<std::string> MeantWithTwoDashes(const std::vector<std::string>& names,
                                              const std::string& arg) {
  std::string name = arg.substr(1, arg.find('=') - 1);
  std::replace(name.begin(), name.end(), '_', '-');
  if (arg.starts_with("--") || name.size() < 3) {
    return std::nullopt;
  }
  return std::ranges::count(names, name) > 0 ? name : NamedElsewhere(names, name);
}

// The flag for which mpirun and srun have this letter, with the count that follows it.
std::string MeantByLetter(const std::string& arg, const std::string& next) {
  if (arg.starts_with("-H") || arg.starts_with("-x")) {
    return std::string("; did you mean ") + (arg[1] == 'H' ? "--hosts?" : "--env NAME=VALUE?");
  }
  const bool workers = arg.starts_with("-n");
  if (!workers && !arg.starts_with("-N")) {
    return "";
  }
  std::string count = arg.substr(arg.starts_with("-np") ? 3 : 2);
  count = count.starts_with('=') ? count.substr(1) : count.empty() ? next : count;
  return std::string("; did you mean ") + (workers ? "--nproc-per-node" : "--nnodes") +
         (NotNegative(count) ? "=" + count : "") + "?";
}

constexpr const char* kPrefixes[] = {"DDPRUN_", "PET_"};  // The first one that is set counts.

// "MAX_RESTARTS"
std::string VariableOf(std::string flag) {
  std::ranges::replace(flag, '-', '_');
  return Uppercase(flag);
}

}  // namespace

std::string NameOf(const CLI::Option* option) {
  return option->get_lnames().empty() ? option->get_snames().front() : option->get_lnames().front();
}

std::optional<std::string> Nearest(const std::vector<std::string>& names, const std::string& name) {
  const std::size_t most = std::min<std::size_t>(3, name.size() / 3);
  const auto distance = [&](const std::string& known) {  // At least what they differ in length.
    const bool may = name.size() <= known.size() + most && known.size() <= name.size() + most;
    return may ? Distance(known, name) : most + 1;
  };
  const auto nearest =
      std::min_element(names.begin(), names.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  const bool near = nearest != names.end() && distance(*nearest) <= most;
  return near ? std::optional(*nearest) : std::nullopt;
}

std::optional<std::string> NearestOrLonger(const std::vector<std::string>& names,
                                           const std::string& name) {
  if (auto nearest = Nearest(names, name)) {
    return nearest;
  }
  const auto begins_so = [&](const std::string& known) { return known.starts_with(name); };
  const bool one = name.size() > 2 && std::ranges::count_if(names, begins_so) == 1;
  return one ? std::optional(*std::ranges::find_if(names, begins_so)) : std::nullopt;
}

Result<SplitLine> SplitFlags(const CLI::App& app, const std::vector<std::string>& args) {
  const std::vector<std::string> names = LongNames(app);
  const std::string more = " (" + app.get_name() + " --help lists all)";
  SplitLine line;
  std::size_t i = 0;
  std::vector<std::string> words = args;
  for (; i < words.size(); ++i) {
    const std::string arg = words[i];
    if (arg == "--") {
      ++i;
      break;
    }
    if (arg.size() < 2 || arg.front() != '-') {
      break;
    }
    if (const auto meant = MeantWithTwoDashes(names, arg)) {
      return Error{ErrorKind::kInvalid,
                   "unknown option " + InOneLine(arg) + "; did you mean --" + *meant + "?" + more};
    }
    std::string name = arg.substr(0, 2);
    std::optional<std::string> value;
    if (arg.starts_with("--")) {
      const std::size_t equals = arg.find('=');
      if (equals != std::string::npos) {
        value = arg.substr(equals + 1);
      }
      ASSIGN_OR_RETURN(const std::string canonical,
                       Canonical(app, names, arg.substr(2, equals - 2), value, more));
      name = "--" + canonical;
    } else if (arg.size() > 2) {
      value = arg.substr(arg[2] == '=' ? 3 : 2);  // "-r3", "-r=3"
    }
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) {
      const bool launches = std::ranges::count(names, "nproc-per-node") > 0;
      const std::string next = i + 1 < words.size() ? words[i + 1] : "";
      return Error{ErrorKind::kInvalid, "unknown option " + InOneLine(arg) +
                                            (launches ? MeantByLetter(arg, next) : "") + more};
    }
    if (!TakesValue(option) && value && name.size() == 2 &&
        arg[2] != '=') {  // -mv: two switches in one word.
      words[i--] = "-" + *value;
      value.reset();
    } else if (TakesValue(option) && !value) {
      if (i + 1 == words.size()) {
        return Error{ErrorKind::kInvalid, "option " + name + " needs a value"};
      }
      value = words[++i];
    }
    if (value && AddsUp(app, NameOf(option)) && value->find('\n') != std::string::npos) {
      return Invalid("the value of " + name + " must have no line break", InOneLine(*value));
    }
    line.settings.push_back({NameOf(option), value.value_or(kOn), kCommandLine});
  }
  line.rest.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())),
                   words.end());
  return line;
}

std::vector<std::string> VariablesOfFlags(const CLI::App& app, const GetEnv& get_env) {
  std::vector<std::string> found;
  for (const CLI::Option* option : app.get_options()) {
    for (const char* prefix : kPrefixes) {
      std::string variable = prefix + VariableOf(NameOf(option));
      if (get_env(variable)) {
        found.push_back(std::move(variable));
      }
    }
  }
  return found;
}

std::optional<std::string> MeantVariable(const std::function<std::vector<std::string>()>& flags,
                                         const std::string& variable) {
  for (const std::string prefix : kPrefixes) {
    if (!variable.starts_with(prefix)) {
      continue;
    }
    std::vector<std::string> names;
    std::ranges::transform(flags(), std::back_inserter(names), VariableOf);
    const std::string name = variable.substr(prefix.size());
    const auto nearest = Nearest(names, name);
    return nearest && *nearest != name ? std::optional(prefix + *nearest) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<Setting> SettingsFromEnvironment(const CLI::App& app, const GetEnv& get_env) {
  std::vector<Setting> found;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = NameOf(option);
    if (name.size() == 1 || name == "help" || name == "version" || name == "print-completion") {
      continue;
    }
    const std::string variable = VariableOf(name);
    for (const char* prefix : kPrefixes) {
      const std::optional<std::string> value = get_env(prefix + variable);
      if (!value) {
        continue;
      }
      if (!value->empty() || TakesValue(option)) {  // An empty switch says nothing.
        found.push_back({name, *value, prefix + variable});
      }
      break;
    }
  }
  return found;
}

std::vector<Setting> LayOver(const CLI::App& app, const std::vector<std::vector<Setting>>& lists) {
  std::vector<Setting> all;
  for (const std::vector<Setting>& list : lists) {
    for (const Setting& setting : list) {
      const auto known = std::ranges::find(all, setting.name, &Setting::name);
      if (known == all.end()) {
        all.push_back(setting);
      } else if (AddsUp(app, setting.name) && !known->value.empty() && !setting.value.empty()) {
        *known = {setting.name, known->value + "\n" + setting.value, setting.origin};
      } else {
        *known = setting;
      }
    }
  }
  return all;
}

bool SaysNothing(const std::vector<Setting>& settings, const std::string& name) {
  return std::ranges::any_of(settings, [&](const Setting& setting) {
    return setting.name == name && setting.value.empty() && setting.origin != kDefault;
  });
}

std::string WithOrigins(const std::string& problems, const std::vector<Setting>& settings) {
  std::string told;
  for (const std::string& line : Split(problems, '\n')) {
    std::string origins;
    for (const Setting& setting : settings) {
      const bool theirs = setting.origin == kCommandLine || setting.origin == kDefault;
      if (!theirs && setting.name.size() > 1 && Names(line, "--" + setting.name)) {
        origins += (origins.empty() ? " (--" : "; --") + setting.name + " is from " +
                   OriginInWords(setting);
      }
    }
    told += (told.empty() ? "" : "\n") + Continue(line, origins + (origins.empty() ? "" : ")"));
  }
  return told;
}

void ApplySettings(CLI::App& app, const std::vector<Setting>& settings, Problems& problems) {
  for (const Setting& setting : settings) {
    CLI::Option* const option =
        app.get_option_no_throw((setting.name.size() == 1 ? "-" : "--") + setting.name);
    CHECK(option != nullptr);
    try {
      // CLI11 reads a number at the beginning of a switch's value, whatever follows it.
      const std::string& value = setting.value;
      const bool word = value.empty() || std::isalpha(static_cast<unsigned char>(value[0])) != 0;
      if (!TakesValue(option) && !word && !ParseNumber<unsigned>(value)) {
        throw CLI::ConversionError(value);
      }
      option->add_result(setting.value);
      option->run_callback();
    } catch (const CLI::ConversionError&) {  // Of a switch: a row reads its value itself.
      problems.Add("--" + setting.name + " does not take the value '" + setting.value +
                   "' (use --" + setting.name + " or --" + setting.name + "=false)");
    } catch (const CLI::ParseError& error) {
      problems.Add(error.what());
    }
  }
}

}  // namespace ddprun
