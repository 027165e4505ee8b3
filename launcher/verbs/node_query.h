// Sends one operator's request to a run's nodes, from a verb, and gathers their answers. Blocks; a
// verb is a process of its own.
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

inline constexpr Duration kPieceWait{2'000};  // For the next piece of an answer.

// The steady clock, as loops read it.
Time SteadyNow();

struct NodeAnswers {
  std::set<NodeId> whole;                 // Nodes whose answer has come whole.
  std::map<NodeId, std::string> refused;  // Why the answer of a node is missing, or has a gap.
};

// Opens the request at this server.
Result<NodeQuery> QueryNodes(const ServerPlace& place, const RunId& run_id, const RequestSpec& spec,
                             const std::vector<NodeId>& nodes);

// The same, once the server is found.
Result<NodeQuery> QueryNodes(const ServerQuery& server, const RequestSpec& spec,
                             const std::vector<NodeId>& nodes);

// Calls `take` for each record that a node sends, until all answers are whole, for `patience` at
// most. Prints the nodes that it waits for, as `verb`. An error: the server is gone.
Result<void> GatherAnswers(
    NodeQuery query, const char* verb, Duration patience,
    const std::function<void(const NodeId& node, AnswerRecord& record)>& take,
    NodeAnswers& answers);

}  // namespace ddprun
