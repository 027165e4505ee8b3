// The command line of `ddprun slurm-script`.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

// The script, or the help. kInvalid: everything that is wrong with the line.
Result<std::string> ParseSlurmScript(const std::vector<std::string>& args);

}  // namespace ddprun
