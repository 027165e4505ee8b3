// Splits a command line of flags from the program that follows, makes every spelling of a flag its
// one long name, and lays what the command line, the environment and a file say over each other.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/command_line/config.h"
#include "launcher/command_line/problems.h"
#include "proto/worker_env.h"

namespace ddprun {

inline constexpr const char* kCommandLine = "command line";  // As an origin.

struct SplitLine {
  std::vector<Setting> settings;  // As given, with kCommandLine for their origin.
  std::vector<std::string> rest;  // The program and its arguments.
};

// By which settings name it: its first long name, or the one letter of a flag that has no other.
// Further long names are aliases.
std::string NameOf(const CLI::Option* option);

// An unknown or ambiguous flag is refused, with the nearest known one.
Result<SplitLine> SplitFlags(const CLI::App& app, const std::vector<std::string>& args);

// DDPRUN_<NAME>, else PET_<NAME>, for every flag of `app` but those that only print.
std::vector<Setting> SettingsFromEnvironment(const CLI::App& app, const GetEnv& get_env);
// Those of these variables that are set, by both names.
std::vector<std::string> VariablesOfFlags(const CLI::App& app, const GetEnv& get_env);

// The variable of one of these flags that this one was probably meant to be: DDPRUN_MAX_RESTARTS
// of DDPRUN_MAX_RESTART.
std::optional<std::string> MeantVariable(const std::function<std::vector<std::string>()>& flags,
                                         const std::string& variable);

// Of `names` the one that is meant: at most a third of its letters, and three, are wrong. Two
// neighbours that were exchanged are one wrong letter.
std::optional<std::string> Nearest(const std::vector<std::string>& names, const std::string& name);
// The same, else the only one that begins so.
std::optional<std::string> NearestOrLonger(const std::vector<std::string>& names,
                                           const std::string& name);

// Each name once, with its last setting of the last list that has one; or with all of them, a line
// each, where the row of `app` says so.
std::vector<Setting> LayOver(const CLI::App& app, const std::vector<std::vector<Setting>>& lists);

// It was set, but empty: a variable of the user's that is not set, perhaps.
bool SaysNothing(const std::vector<Setting>& settings, const std::string& name);

// The problems of a command line, one on each line: a problem that names a flag which the command
// line did not set also names the origin of its value.
std::string WithOrigins(const std::string& problems, const std::vector<Setting>& settings);

// Each row of `app` reads its value. A problem for each value that cannot be.
void ApplySettings(CLI::App& app, const std::vector<Setting>& settings, Problems& problems);

}  // namespace ddprun
