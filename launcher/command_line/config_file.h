// Settings from a file: `name = value` lines, where a name is a long flag's, and TOML's quotes,
// numbers, true, false and # comments mean what they mean there. No tables, no arrays.
//
// The file has a lower rank than the command line and the environment; the caller sees to that.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line/flags.h"

namespace ddprun {

// `text` of the file called `name`. An error names the line and what is wrong with it.
Result<std::vector<Setting>> ParseConfigFile(const CLI::App& app, const std::string& name,
                                             const std::string& text);

// The settings of --config or DDPRUN_CONFIG, which must exist, else, with `look_here`, of
// ./ddprun.toml if there is one.
Result<std::vector<Setting>> SettingsFromFile(const CLI::App& app,
                                              const std::optional<std::string>& named,
                                              bool look_here);

}  // namespace ddprun
