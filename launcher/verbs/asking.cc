#include "launcher/verbs/asking.h"

namespace ddprun {
namespace {

constexpr Duration kAnswerLimit{12'000};

}  // namespace

Result<NodesAsked> AskNodes(const ServerQuery& server, const RequestSpec& spec,
                            const std::vector<NodeId>& nodes) {
  ASSIGN_OR_RETURN(const ServerPlace place, FindServer(server));
  return NodesAsked::Open(place, {server.run_id, place.access.token, spec, nodes}, kAnswerLimit);
}

}  // namespace ddprun
