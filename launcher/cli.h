// Turns argv into one of the things ddprun can do, or one message that names what is wrong.
//
// Every long flag in dash and underscore spelling and by unambiguous prefix; flag > DDPRUN_<FLAG> >
// PET_<FLAG> > config file > default. Everything from the first word that is no flag on is the
// program's own.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/config.h"
#include "proto/worker_env.h"

namespace ddprun {

struct Print {  // Help or version: to stdout, exit 0.
  std::string text;
};
using CommandLine = std::variant<LaunchConfig, ServerConfig, Print>;

// `args` without argv[0]. Errors are kInvalid: exit 2.
Result<CommandLine> ParseCommandLine(const std::vector<std::string>& args, const GetEnv& get_env);

}  // namespace ddprun
