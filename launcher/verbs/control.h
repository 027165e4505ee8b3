// `ddprun drain NODE` and `ddprun stop`: an operator's requests to a run, with its token.
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

// Returns what follows, for stdout. kUnavailable: no server answers.
Result<std::string> AskFor(const ControlCommand& command);

}  // namespace ddprun
