// Decides what of a report is remembered, how much a run may hold, and who has to go: nobody makes
// a server outgrow its machine, however many nodes he makes up and whatever they say.
//
// Pure. Texts are kept with failures that are evidence, never with nodes, and only while there is
// room for them. Whoever is in no world costs kMostOutside at most; where a run's bytes are used
// up, lost memberships are forgotten and newcomers are not remembered until there is room. A
// member of the world, the present or the last one, is always kept.
#pragma once

#include <cstddef>

#include "rendezvous/core/turn.h"

namespace ddprun {

inline constexpr std::size_t kMostOutside = 4096;     // Bytes, of a membership in no world.
inline constexpr std::size_t kMostMemberships = 64;   // Of one node id.
inline constexpr std::size_t kMostSpawnFailures = 8;  // Of one drain, in words.

// Without what is evidence or the driver's. Where its workers stand matters in a world alone.
NodeReport ToKeep(const NodeReport& report, bool in_world);

// Of a report that takes a place in the world looked for: with its failures, whose texts come again
// with the next one.
NodeReport ToKeepOfPlace(const NodeReport& report);

// What the membership costs, its entries in the index included.
std::size_t BytesOf(const NodeKey& key, const NodeState& node);
std::size_t BytesOf(const WorkerFailure& failure);
std::size_t BytesOf(const Recovery::Place& place);
std::size_t BytesOf(const CoordinatorState& state);

// What is left names the worker and how it ended.
void DropTexts(WorkerFailure& failure);

// Who has named several places of the world looked for has the first of them alone: a world in
// which a node is twice would never be drained.
void LeaveOnePlaceEach(Recovery& recovery);

// For a membership that is not known yet. False: it is not remembered.
bool MakeRoomFor(CoordinatorTurn& turn, const NodeKey& key);

}  // namespace ddprun
