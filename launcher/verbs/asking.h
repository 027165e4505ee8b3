// One operator's request to a run's nodes, from a verb. Blocks; a verb is a process of its own.
#pragma once

#include <vector>

#include "launcher/server/server_files.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

inline constexpr Duration kLookAgain{2'000};  // At the time, where no piece comes.

// Finds the server and asks it.
Result<NodesAsked> AskNodes(const ServerQuery& server, const RequestSpec& spec,
                            const std::vector<NodeId>& nodes);

}  // namespace ddprun
