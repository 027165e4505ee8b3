// `ddprun drain NODE` and `ddprun stop`: what an operator may ask of a run, with its token.
#pragma once

#include <string>

#include "launcher/server/server_files.h"
#include "rendezvous/core/coordinator.h"

namespace ddprun {

struct ControlWish {
  ServerQuery server;
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;
};

// Says on stdout what follows. 0; 1: refused, the reason is on stderr; 69: no server answers.
int AskFor(const ControlWish& wish);

}  // namespace ddprun
