// `ddprun drain NODE` and `ddprun stop`: what an operator may ask of a run, with its token.
#pragma once

#include <string>

#include "launcher/server/server_files.h"
#include "rendezvous/core/coordinator.h"

namespace ddprun {

struct ControlCommand {
  ServerQuery server;
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;
};

// Says on stdout what follows. 0; 1: refused, the reason is on stderr; 69: no server answers.
int AskFor(const ControlCommand& command);

}  // namespace ddprun
