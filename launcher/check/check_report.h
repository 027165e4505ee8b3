// What a check has found, in words and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/check/pairings.h"
#include "rendezvous/messages/host_fact.h"

namespace ddprun {

struct CheckedNode {
  std::string name;  // "n03", or "node 2 (n03)" where names are not told apart.
  std::string host;
  HostFacts facts;
  std::string refuses;     // As --host-check would.
  bool asked = false;      // The user's own command was run:
  std::string node_check;  // why it refuses the node; empty: it does not.
  bool Bad() const;
};

struct Checked {
  std::vector<CheckedNode> nodes;
  std::vector<PairResult> pairs;
  std::vector<SlowPart> slow;
  bool Bad() const;
};

std::string InWords(const Checked& checked);
std::string InJson(const Checked& checked);

// One node as in that, and back. kInvalid: another node has told something else.
std::string InJson(const CheckedNode& node);
Result<CheckedNode> NodeFromJson(const std::string& text);

}  // namespace ddprun
