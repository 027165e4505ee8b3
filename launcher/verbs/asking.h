// One operator's request to a run's nodes, from a verb. Blocks; a verb is a process of its own.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/messages/answer_records.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

inline constexpr Duration kPieceWait{2'000};  // At the time, where no piece comes.

// As loops read it.
Time SteadyNow();

// The nodes of which all has come, and why not of the others.
struct NodeAnswers {
  std::set<NodeId> whole;
  std::map<NodeId, std::string> refused;
};

Result<NodesAsked> AskNodes(const ServerPlace& place, const RunId& run_id, const RequestSpec& spec,
                            const std::vector<NodeId>& nodes);

// Finds the server and asks it.
Result<NodesAsked> AskNodes(const ServerQuery& server, const RequestSpec& spec,
                            const std::vector<NodeId>& nodes);

// Hands over each record that a node sends, until all have sent all, for `patience` at most. Says
// which nodes it waits for, in the name of `verb`. An error: the server is gone.
Result<void> GatherAnswers(
    NodesAsked asked, const char* verb, Duration patience,
    const std::function<void(const NodeId& node, AnswerRecord& record)>& take,
    NodeAnswers& answers);

}  // namespace ddprun
