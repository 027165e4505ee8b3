// The command line of `ddprun check`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/commands.h"

namespace ddprun {

// `args`: after the verb. `launch` understands a launch's flags and program.
Result<CommandLine> ParseCheckLine(
    const std::vector<std::string>& args,
    const std::function<Result<CommandLine>(const std::vector<std::string>&)>& launch);

}  // namespace ddprun
