// The nodes that a run knows, the world that some of them form, and what a walk over all of them
// would tell, so that an event costs O(log n) however many there are.
//
// Decides nothing: every entry of the index and of the world's roll call follows from the nodes,
// the members and clock-free rules. Nodes and members are changed through Change, ChangeMember and
// ChangeAll alone, which file anew what depends on them; the invariants compare with an index made
// afresh.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/config.h"
#include "rendezvous/core/world.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {

// A node that was lost again and again waits before it may make a world restart.
struct Held {
  Time until;
  std::uint32_t losses = 0;
  Duration span{0};  // From the first of them to this arrival.
};

// A node's entries in the index, as last made.
struct Filed {
  std::optional<Time> due;
  std::optional<Time> forget;
  std::optional<Time> cancelled;
  bool ready = false;
  bool held = false;
  bool outsider = false;
  bool coming = false;
  bool served = false;
  bool unfit = false;
  bool cannot_start = false;
  bool gives_up = false;
  std::size_t bytes = 0;
  bool operator==(const Filed&) const = default;
};

struct NodeState {
  NodeReport report;         // The newest, as far as it is kept (keeping.h).
  std::uint64_t joined = 0;  // Order of first contact.
  Time heard;                // Arrival of the newest report.
  Time expires;              // The lease's end.
  bool call_open = false;
  std::optional<Time> unconnected;     // Since when no call is open.
  std::optional<Time> cancelled;       // Since when, if its newest call was cancelled.
  bool lease_decides = false;          // Closed together with others: the grace is not used.
  bool lost = false;                   // Its directive is to stop and to draw a new incarnation.
  bool member_lost = false;            // So, and it was one of a world.
  std::optional<std::string> refused;  // Why it cannot be part of the run.
  bool acknowledged = false;           // Has echoed its Finish.
  bool asked_to_leave = false;         // By ddprun drain: as if its own report said so.
  bool waited = false;                 // Has said once that it stays.
  std::optional<Time> forget;          // Lost: remembered until then, so that it hears of it.
  std::optional<Held> held;
  Filed filed;
};

// The answers that a walk over all nodes would give.
struct NodeIndex {
  using Agenda = std::set<std::pair<Time, NodeKey>>;
  Agenda due;                      // When time alone can change what is thought of a node.
  Agenda forget;                   // When lost ones are forgotten.
  std::multiset<Time> cancelled;   // Closed connections of nodes that are not lost.
  std::uint32_t ready = 0;         // Could form a world and are not held back.
  std::uint32_t held = 0;          // Could form a world, but are held back.
  std::uint32_t outsiders = 0;     // Of the ready: not in the current world.
  std::uint32_t coming = 0;        // Belong to the run, but are not ready yet.
  std::uint32_t served = 0;        // Neither lost, nor has it acknowledged how the run ended.
  std::set<NodeKey> unfit;         // No world may have them: node checks, or they cannot start.
  std::uint32_t cannot_start = 0;  // Unfit nodes that cannot start their workers.
  std::uint32_t gives_up = 0;      // Nodes that cannot start their workers and leave.
  std::size_t bytes = 0;           // Of all.
  bool operator==(const NodeIndex&) const = default;
};

struct Roster {
  RunId run_id;
  std::optional<RunSpec> spec;  // The first report's, or that of the world that was recovered.
  std::map<NodeKey, NodeState> nodes;
  NodeIndex index;
  std::optional<World> world;  // The current or last one.
  std::uint64_t joins = 0;     // First contacts so far.
  std::uint64_t edition = 0;  // Moves when directives of others than the reporting node may change,
                              // so that a driver need not look at every parked call each time.
};

// The memberships of one node, among `nodes` of a roster.
template <class Nodes>
auto MembershipsOf(Nodes& nodes, const NodeId& node) {
  using Iterator = decltype(nodes.begin());
  struct Memberships {
    Iterator first, last;
    Iterator begin() const { return first; }
    Iterator end() const { return last; }
  };
  return Memberships{nodes.lower_bound(NodeKey{node, Incarnation{0}}),
                     nodes.upper_bound(NodeKey{node, Incarnation{UINT64_MAX}})};
}

// Neither lost nor refused, nor has it acknowledged how the run ended.
bool IsThere(const NodeState& node);

// Nodes that are there and do not leave.
std::size_t StayingNodes(const Roster& roster);

// Not lost, refused, unfit or leaving; hosts nothing; no earlier membership of its node is left.
bool IsReady(const Roster& roster, const NodeKey& key);

// A newer membership of the same node is waiting for this one to end.
bool HasNewerMembership(const Roster& roster, const NodeKey& key);

// Hosts nothing and has promised not to run this generation, or is lost and its fence is over.
// Silent is neither.
bool IsDrained(const Roster& roster, const Member& member);

// The node's place in the current world; nullptr for outsiders and members that were lost.
const Member* FindMember(const Roster& roster, const NodeKey& key);

// Nodes that could form a world now. One that is held back counts only where the others are fewer
// than min_nodes.
std::uint32_t CountReady(const Roster& roster);
bool NeedsHeld(const Roster& roster);

// Files anew all that depends on this node's memberships, or on any node and on the world.
void Refile(Roster& roster, const CoordinatorConfig& config, const NodeId& node);
void RefileAll(Roster& roster, const CoordinatorConfig& config);

// `change` gets the membership, which is made where there is none yet.
template <class Function>
void Change(Roster& roster, const CoordinatorConfig& config, const NodeKey& key, Function change) {
  change(roster.nodes[key]);
  Refile(roster, config, key.node);
}

// `change` gets its place in the current world, for which a member that was lost has none.
template <class Function>
void ChangeMember(Roster& roster, const CoordinatorConfig& config, const NodeKey& key,
                  Function change) {
  if (const auto rank = roster.world ? RankOf(*roster.world, key) : std::nullopt) {
    change(roster.world->members[*rank]);
    Refile(roster, config, key.node);
  }
}

// `change` gets all of it: many nodes or members, or the world itself.
template <class Function>
void ChangeAll(Roster& roster, const CoordinatorConfig& config, Function change) {
  change(roster);
  RefileAll(roster, config);
}

// Nodes that no world may have, "n0 (node check: why)": kMaxNamed at most.
std::vector<std::string> UnfitNodes(const Roster& roster);

// "; kept out: n0 (node check: why)"; "" where there is none.
std::string UnfitInWords(const Roster& roster);

// The bytes of the membership, its entries in the index included.
std::size_t BytesOf(const NodeKey& key, const NodeState& node);

// Lost long ago, or gone with the run's end: no entry of it stays.
void Forget(Roster& roster, const NodeKey& key);

}  // namespace ddprun
