// `ddprun stacks` of a run: where its workers stand, on all nodes, equal ones together.
#pragma once

#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "launcher/verbs/stack_groups.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct RunStacksRequest {
  ServerQuery server;
  RequestSpec spec{.kind = RequestKind::kStacks};
  std::vector<NodeId> nodes;  // None: all.
  bool whole = false;         // Every rank's text, not only the groups.
  bool json = false;
};

// "61 ranks (0-6,8-61): all_reduce < backward < <module>", and their frames.
std::string FormatGroups(const std::vector<StackGroup>& groups);
std::string GroupsJson(const std::vector<StackGroup>& groups, const std::vector<StackText>& stacks,
                       bool whole);

// To stdout. 0; 1: a node did not tell of its workers (stderr says which); 69: no server answers.
int PrintRunStacks(const RunStacksRequest& request);

}  // namespace ddprun
