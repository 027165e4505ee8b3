#include "rendezvous/core/admission.h"

#include <algorithm>

#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

// Limits for what comes from sockets: sums and successors stay far from wrapping round.
constexpr Generation kMaxGeneration{kMaxCount};

bool MayBeInOneRun(const RunSpec& a, const RunSpec& b) {
  bool may = true;
  ForEach(kSpecFields, [&](const auto& field) {
    may &= field.mismatch == Mismatch::kUseFirst || a.*field.member == b.*field.member;
  });
  return may;
}

}  // namespace

std::optional<std::string> WhyMalformed(const NodeReport& report) {
  const RunSpec& spec = report.spec;
  if (spec.min_nodes < 1 || spec.min_nodes > spec.max_nodes) {
    return "--nnodes=" + std::to_string(spec.min_nodes) + ":" + std::to_string(spec.max_nodes) +
           " is not a range of node counts";
  }
  if (report.workers < 1 || report.workers > kMaxWorkers) {
    return "--nproc-per-node=" + std::to_string(report.workers) + " is not within 1 to " +
           std::to_string(kMaxWorkers);
  }
  const Generation hosted = report.placement ? report.placement->generation : Generation{};
  if (report.floor > kMaxGeneration || hosted > kMaxGeneration) {
    return "its report names an impossible generation";
  }
  if (report.hosting != Hosting::kNothing && !report.placement) {
    return "its report hosts workers of no generation";
  }
  return std::nullopt;
}

std::optional<std::string> WhyRefused(const Roster& roster, const NodeReport& report) {
  const RunSpec& spec = *roster.spec;
  if (!MayBeInOneRun(report.spec, spec)) {
    return "this node asks for " + Describe(report.spec) + ", but the run '" + roster.run_id +
           "' has " + Describe(spec) + ": give every node the same options [different-options]";
  }
  if (report.node_rank && *report.node_rank >= spec.max_nodes) {
    return "--node-rank=" + std::to_string(*report.node_rank) +
           " must be below --nnodes=" + std::to_string(spec.max_nodes);
  }
  return std::nullopt;
}

bool IsPossible(const Placement& placement, const NodeReport& report) {
  return placement.generation > Generation{} && placement.group_size >= report.spec.min_nodes &&
         placement.group_size <= report.spec.max_nodes &&
         placement.group_rank < placement.group_size &&
         std::uint64_t{placement.first_rank} + report.workers <= placement.world_size;
}

bool MayStopRun(const Roster& roster, bool gathering, const NodeKey& key) {
  if (!roster.world) {
    return roster.nodes.at(key).waited;
  }
  const auto& members = roster.world->members;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.lost ? gathering && member.key.node == key.node : member.key == key;
  });
}

}  // namespace ddprun
