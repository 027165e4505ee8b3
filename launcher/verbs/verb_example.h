// `ddprun example NAME`: a program to begin with, from examples/.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

// `args` begins with the verb. The program, or the help. kInvalid: there is no example of that
// name.
Result<std::string> ParseExample(const std::vector<std::string>& args);

}  // namespace ddprun
