// Turns argv into one of the things ddprun can do, or one message that names what is wrong.
//
// Called as torchrun it is torchrun: no word is a verb, and its texts say torchrun.
//
// Every long flag in dash and underscore spelling and by unambiguous prefix; flag > DDPRUN_<FLAG> >
// PET_<FLAG> > config file > default. Everything from the first word that is no flag on is the
// program's own.
#pragma once

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

}  // namespace ddprun
