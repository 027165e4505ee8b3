#include "rendezvous/core/testing/invariants.h"

#include <set>

#include "rendezvous/core/bytes.h"
#include "rendezvous/core/directives.h"

namespace ddprun {
namespace {

std::optional<std::string> BrokenWorld(const CoordinatorState& state, const World& world) {
  // One that was found from reports which do not fit together is only stopped.
  const bool runs = state.phase == Phase::kRunning;
  std::uint32_t next = 0;
  std::set<NodeId> nodes;
  for (const Member& member : world.members) {
    if (runs && member.first_rank != next) {
      return "ranks are not contiguous at node " + member.key.node;
    }
    next += member.workers;
    const auto place = world.places.find(member.key);
    if (place == world.places.end() || &world.members[place->second] != &member) {
      return "the index of the world does not know node " + member.key.node;
    }
    if (!nodes.insert(member.key.node).second) {
      return "node " + member.key.node + " is in the world twice";
    }
  }
  if (runs && next != world.size) {
    return "the world's size is not the sum of its workers";
  }
  if (world.members.size() < state.spec->min_nodes ||
      world.members.size() > state.spec->max_nodes) {
    return "the world has " + std::to_string(world.members.size()) + " nodes, outside its range";
  }
  return world.generation > state.newest ? std::optional<std::string>("newest is behind the world")
                                         : std::nullopt;
}

// The index, and the roll call of the world, as they must be.
Roster FiledAfresh(Roster roster, const CoordinatorConfig& config) {
  roster.index = {};
  for (auto& [key, node] : roster.nodes) {
    node.filed = {};
  }
  if (roster.world) {
    roster.world->roll = {};
  }
  RefileAll(roster, config);
  return roster;
}

bool BytesAreCounted(const CoordinatorState& state) {
  std::size_t places = 0;
  for (const auto& [rank, place] : state.recovery.places) {
    places += BytesOf(place);
  }
  std::size_t evidence = 0;
  if (state.drain) {
    for (const Evidence& entry : state.drain->evidence) {
      evidence += BytesOf(entry.failure);
    }
  }
  return places == state.recovery.bytes && evidence == (state.drain ? state.drain->bytes : 0);
}

}  // namespace

std::optional<std::string> BrokenInvariant(const CoordinatorState& state,
                                           const CoordinatorConfig& config, Time now) {
  if (state.spec) {
    const bool windowed = state.spec->restart_window > Duration{0};
    const std::size_t used = windowed ? state.budget.charged.size() : state.budget.used;
    if (used > state.spec->max_restarts) {
      return "more restarts were used than allowed";
    }
  }
  const Roster afresh = FiledAfresh(state, config);
  if (state.index != afresh.index) {
    return "the index disagrees with the nodes";
  }
  if (state.world && state.world->roll != afresh.world->roll) {
    return "the roll call disagrees with the world's members";
  }
  if (!BytesAreCounted(state)) {
    return "the bytes of evidence or of recovery are counted wrong";
  }
  if (IsActive(state) && !state.world) {
    return "running or draining without a world";
  }
  if (state.phase == Phase::kDraining && !state.drain) {
    return "draining without a drain";
  }
  if (HasEnded(state) != state.outcome.has_value()) {
    return "the outcome and the phase disagree";
  }
  if (state.world) {
    if (auto broken = BrokenWorld(state, *state.world)) {
      return broken;
    }
  }
  for (const auto& [key, node] : state.nodes) {
    const Directive directive = DirectiveFor(state, config, key.node, key.incarnation, now);
    const Run* const run = std::get_if<Run>(&directive);
    if (run != nullptr &&
        (state.phase != Phase::kRunning || run->placement.generation != state.world->generation)) {
      return "node " + key.node + " is told to run outside the current world";
    }
    if (run != nullptr && run->placement.generation <= node.report.floor) {
      return "node " + key.node + " is told to run what it promised not to";
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
