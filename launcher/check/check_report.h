// The findings of a check's nodes, the faults among them, and both in words and as JSON. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/messages/host_fact.h"

namespace ddprun {

// From one node to another one.
struct CheckedLink {
  std::size_t to = 0;  // Its place among the nodes.
  double bytes_per_second = 0;
  double latency_seconds = 0;  // There and back.
  std::string error;           // Why nothing was measured.
};

struct CheckedNode {
  std::string node;  // "n03", or "node 2 (n03)" where several nodes have one name.
  std::string host;
  HostFacts facts;
  std::string refused;     // Why --host-check would refuse it; empty: it would not.
  bool asked = false;      // The user's own command was run.
  std::string node_check;  // Why that command refuses the node; empty: it does not.
  std::vector<CheckedLink> links;
  std::string verdict;  // "ok", "BAD", "NO LINK" or "SLOW".
};

struct CheckReport {
  std::vector<CheckedNode> nodes;
  std::vector<std::string> problems;  // A sentence each.
};

// Gives each node its name and its verdict.
//
// A node's speed is that of its best link, in the slower direction. A node, or a link between two
// nodes that are not slow, is slow if it has less than half of the median of these speeds.
CheckReport Judge(std::vector<CheckedNode> nodes);

std::string InWords(const CheckReport& report);
std::string InJson(const CheckReport& report);

// One node as it is sent to the others, and back. kInvalid: the text is something else.
std::string InJson(const CheckedNode& node);
Result<CheckedNode> NodeFromJson(const std::string& text, std::size_t nodes);

}  // namespace ddprun
