// The rendezvous verb: a server alone, until SIGINT or SIGTERM.
//
// With a state directory it may be killed and started again on the same endpoint at any moment: it
// continues with its runs from what its claim there and their nodes say.
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Returns the exit code for the shell.
int Serve(const ServerConfig& config);

}  // namespace ddprun
