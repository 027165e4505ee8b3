// Keeps the coordinator's index and its worlds' roll calls true, so that an event costs O(log n)
// however many nodes there are.
//
// Decides nothing: every entry follows from the nodes, the members and the clock-free rules of
// formation.h. Whoever changes a node, or a member's flags, says so here afterwards; the invariants
// compare with an index made afresh.
#pragma once

#include "rendezvous/core/coordinator.h"

namespace ddprun {

// Not lost, refused, leaving or draining; hosts nothing; no earlier membership of its node is left.
bool IsReady(const CoordinatorState& state, const NodeKey& key);

// A newer membership of the same node is waiting for this one to end.
bool HasSuccessor(const CoordinatorState& state, const NodeKey& key);

// Hosts nothing and has promised not to run this generation, or is lost and its fence is over.
// Silent is neither.
bool IsDrained(const CoordinatorState& state, const Member& member);

// Nodes that could form a world now. One that is held back counts only where the others are fewer
// than min_nodes.
std::uint32_t CountReady(const CoordinatorState& state);
bool NeedsHeld(const CoordinatorState& state);

// Something about a membership of this node has changed; its siblings depend on it.
void Refile(CoordinatorState& state, const CoordinatorConfig& config, const NodeId& node);

// Lost long ago, or gone with the run's end: no entry of it stays.
void Forget(CoordinatorState& state, const NodeKey& key);

// Many nodes, or the world itself, have changed.
void RefileAll(CoordinatorState& state, const CoordinatorConfig& config);

// What the index, and the roll call of the world, must be: by a walk over all nodes.
NodeIndex IndexAfresh(const CoordinatorState& state, const CoordinatorConfig& config);
RollCall RollCallAfresh(const CoordinatorState& state);

}  // namespace ddprun
