// Scripts that complete ddprun's command line in a shell, made from the table of flags.
#pragma once

#include <string>

#include "common/result.h"

namespace ddprun {

// Of bash, zsh or fish, for the command called `name`. Another shell is refused by name.
Result<std::string> CompletionScript(const std::string& shell, const std::string& name);

std::string CompletionHelp();

}  // namespace ddprun
