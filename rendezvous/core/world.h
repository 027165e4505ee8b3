// A world: which nodes train together, and what is known of each since.
//
// Values. Decides nothing: formation chooses the members, and the roster writes here later, which
// keeps the roll call true.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/messages/messages.h"

namespace ddprun {

struct NodeKey {
  NodeId node;
  Incarnation incarnation;
  auto operator<=>(const NodeKey&) const = default;
};

struct Member {
  NodeKey key;
  std::uint32_t workers = 0;
  std::uint32_t first_rank = 0;
  std::string role;
  std::uint32_t role_first_rank = 0;
  std::uint32_t role_size = 0;  // Workers of this role in the world.
  bool hosted = false;          // Has been seen hosting this world.
  bool succeeded = false;
  bool lost = false;
  std::optional<Time> fence;  // Lost, but its workers may run until then (--fence-after).
  std::uint8_t reached = 0;   // The points of its start that it has reported (startup/).
  bool operator==(const Member&) const = default;
};

// The members of a world that have not done what is waited for, by group rank.
struct RollCall {
  std::set<std::size_t> silent;      // Neither lost nor seen hosting the world.
  std::set<std::size_t> unfinished;  // Has not succeeded.
  std::set<std::size_t> undrained;   // Neither drained nor lost with its fence over.
  std::set<std::size_t> hurried;     // Of these those that are not lost, and do not save.
  std::set<std::size_t> lost;
  std::set<std::size_t> checking;  // Its machine is being looked at.
  bool operator==(const RollCall&) const = default;
};

struct World {
  Term term;
  Generation generation;
  WorldId id;
  std::vector<Member> members;            // In group rank order.
  std::map<NodeKey, std::size_t> places;  // Index in members.
  std::uint32_t size = 0;                 // Workers.
  Endpoint store;
  Time formed;
  RollCall roll;
  bool operator==(const World&) const = default;
};

// Group rank; nullopt for outsiders and members that were lost.
std::optional<std::size_t> RankOf(const World& world, const NodeKey& key);

bool SpeaksOfWorld(const NodeReport& report, const World& world);

// The placement that Run names for the node of this group rank.
Placement PlacementOf(const World& world, std::size_t group_rank, std::uint32_t restarts_used);

// "generation 4: 4 nodes, 16 workers: n0 n1 n2 n3"
std::string Describe(const World& world);

}  // namespace ddprun
