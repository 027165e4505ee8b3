// The rendezvous verb: a server alone, until SIGINT or SIGTERM.
//
// With a journal it may be killed and started again on the same endpoint at any moment: it takes
// its runs over from the journal and from what their nodes report.
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Returns the exit code for the shell.
int Serve(const ServerConfig& config);

}  // namespace ddprun
