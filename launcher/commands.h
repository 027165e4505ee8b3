// The things that ddprun can do, as a command line asks for them. Values.
#pragma once

#include <string>
#include <variant>

#include "launcher/check/check.h"
#include "launcher/command_line/config.h"
#include "launcher/verbs/verbs.h"

namespace ddprun {

struct Print {  // Help, version or completion: to stdout, exit 0.
  std::string text;
};
using CommandLine =
    std::variant<LaunchConfig, ServerConfig, DaemonConfig, VerbRequest, CheckRequest, Print>;

}  // namespace ddprun
