// `ddprun save`, `ddprun stop --soon` and `ddprun stacks --keep`: what all nodes of a run are to do
// now, each told by itself.
#pragma once

#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct OrderRequest {
  ServerQuery server;
  RequestSpec spec{.kind = RequestKind::kSave};
  std::vector<NodeId> nodes;  // None: all.
  bool json = false;
};

// Says who was told. 0: all; 1: a worker or a node was not (stderr says which); 69: no server
// answers.
int GiveOrder(const OrderRequest& request);

}  // namespace ddprun
