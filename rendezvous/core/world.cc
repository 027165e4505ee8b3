#include "rendezvous/core/world.h"

#include <algorithm>

#include "rendezvous/messages/describe.h"

namespace ddprun {

std::optional<std::size_t> RankOf(const World& world, const NodeKey& key) {
  const auto place = world.places.find(key);
  const bool here = place != world.places.end() && !world.members[place->second].lost;
  return here ? std::optional(place->second) : std::nullopt;
}

bool SpeaksOfWorld(const NodeReport& report, const World& world) {
  return report.placement && report.placement->generation == world.generation &&
         report.placement->world_id == world.id;
}

Placement PlacementOf(const World& world, std::size_t group_rank, std::uint32_t restarts_used) {
  const Member& member = world.members.at(group_rank);
  Placement placement;
  placement.term = world.term;
  placement.generation = world.generation;
  placement.world_id = world.id;
  placement.group_rank = static_cast<std::uint32_t>(group_rank);
  placement.group_size = static_cast<std::uint32_t>(world.members.size());
  placement.first_rank = member.first_rank;
  placement.world_size = world.size;
  placement.role_first_rank = member.role_first_rank;
  placement.role_world_size = member.role_size;
  placement.store = world.store;
  placement.restarts_used = restarts_used;
  return placement;
}

std::string Describe(const World& world) {
  std::string text = "generation " + std::to_string(world.generation.value) + ": " +
                     CountOf(static_cast<std::uint32_t>(world.members.size()), "node") + ", " +
                     CountOf(world.size, "worker") + ":";
  for (std::size_t i = 0; i < std::min(world.members.size(), kMaxNamed); ++i) {
    text += " " + world.members[i].key.node;
  }
  return world.members.size() > kMaxNamed ? text + " ..." : text;
}

}  // namespace ddprun
