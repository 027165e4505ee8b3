// `ddprun drain NODE` and `ddprun stop`: an operator's requests to the server of a run. `ddprun
// save`, `ddprun stop --soon` and `ddprun stacks --keep`: orders that all nodes of a run carry out
// now, each by itself.
#pragma once

#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct ControlCommand {
  ServerQuery server;
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;
};

// Returns what follows, for stdout. kUnavailable: no server answers.
Result<std::string> AskFor(const ControlCommand& command);

struct OrderRequest {
  ServerQuery server;
  RequestSpec spec{.kind = RequestKind::kSave};
  std::vector<NodeId> nodes;  // None: all.
  bool json = false;
};

// Prints which workers got the order. 0: all; 1: a worker or a node was not (stderr says which);
// 69: no server answers.
int GiveOrder(const OrderRequest& request);

}  // namespace ddprun
