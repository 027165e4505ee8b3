// A word as YAML needs it, and as a container's command.
//
// Pure. Every reader of YAML 1.1 and 1.2 reads what was given: nothing is left to its ideas of what
// `no`, 1e3 or a line's end may be.
#pragma once

#include <string>

#include "common/result.h"

namespace ddprun {

// In double quotes, on one line. kInvalid: it is not UTF-8, which YAML cannot say.
Result<std::string> YamlQuoted(const std::string& word);

// The same for a word of `command` or `args`, where kubelet replaces $(NAME): here no $ counts.
Result<std::string> YamlArgument(const std::string& word);

}  // namespace ddprun
