#include "rendezvous/core/peers.h"

#include <variant>

namespace ddprun {

std::string StorePeers(const Roster& roster, const Directive& directive) {
  const Run* const run = std::get_if<Run>(&directive);
  if (run == nullptr || run->placement.group_rank != 0 || !roster.world ||
      roster.world->id != run->placement.world_id) {
    return "";
  }
  std::string peers;
  for (const Member& member : roster.world->members) {
    const auto node = roster.nodes.find(member.key);
    if (node == roster.nodes.end() || node->second.report.addresses.empty()) {
      return "";
    }
    const NodeReport& report = node->second.report;
    peers += (peers.empty() ? "" : ",") + report.addresses;
    peers += (report.seen_at.empty() ? "" : ",") + report.seen_at;
    if (peers.size() > kMaxPeersBytes) {
      return "";
    }
  }
  return peers;
}

}  // namespace ddprun
