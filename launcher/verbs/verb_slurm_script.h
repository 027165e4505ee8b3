// The command line of `ddprun slurm-script`.
#pragma once

#include <string>

#include "launcher/verbs/verb_line.h"

namespace ddprun {

// The script; empty where something is wrong with the line.
std::string ParseSlurmScript(VerbLine& line);

}  // namespace ddprun
