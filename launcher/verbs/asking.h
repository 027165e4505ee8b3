// One operator's errand to a run's nodes, from a verb: asks the server again and again, and says
// what came. Blocks; a verb is a process of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/messages/errand.h"

namespace ddprun {

class NodesAsked {
 public:
  // Finds the server. Nothing is asked before the first Call.
  static Result<NodesAsked> Find(const ServerQuery& server, ErrandWish wish,
                                 std::vector<NodeId> nodes);

  // Says what was taken, and waits for more for so long: there may be none.
  Result<AskReply> Call(std::vector<TakenPiece> taken, Duration wait);

 private:
  NodesAsked(AskingWay way, Asking asking) : way_(std::move(way)), asking_(std::move(asking)) {}

  AskingWay way_;
  Asking asking_;
};

}  // namespace ddprun
