// Turns argv into one of the things ddprun can do, or one message that names what is wrong.
//
// Called by the name torchrun, it knows no verbs, and its texts say torchrun.
//
// A long flag may be written with dashes or underscores, and shortened to an unambiguous prefix. A
// flag overrides DDPRUN_<FLAG>, which overrides PET_<FLAG>, the config file, and the default. The
// program's words begin with the first word that is no flag.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/commands.h"
#include "proto/worker_env.h"

namespace ddprun {

// "torchrun" or "ddprun", whatever else argv[0] is.
std::string ProgramName(const std::string& argv0);

// `args` without argv[0]; `name` as ProgramName has it. Errors are kInvalid: exit 2.
Result<CommandLine> ParseCommandLine(const std::vector<std::string>& args, const GetEnv& get_env,
                                     const std::string& name = "ddprun");

// A warning for each DDPRUN_* and PET_* that is nearly the variable of a flag.
std::vector<std::string> MisspeltVariables(const std::map<std::string, std::string>& environment);

}  // namespace ddprun
