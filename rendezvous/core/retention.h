// Decides what of a report is remembered, how much a run may hold, and which memberships must go:
// no peer makes a server outgrow its machine, however many nodes it makes up and whatever they say.
//
// Pure. Texts are kept with failures that are evidence, never with nodes, and only while there is
// room for them. A node in no world costs kMostOutside at most; where a run's bytes are used up,
// lost memberships are forgotten and newcomers are not remembered until there is room. A member of
// the world, the present or the last one, is always kept.
#pragma once

#include <cstddef>

#include "rendezvous/core/roster.h"

namespace ddprun {

// Drops evidence and the driver's fields. Steps and phases of workers are kept of world members
// only.
NodeReport ToKeep(const NodeReport& report, bool in_world);

// Of a report that takes a place in the world looked for: with its failures, whose texts come again
// with the next one.
NodeReport ToKeepOfPlace(const NodeReport& report);

// It keeps the run's events for the next server.
bool KeepsEvents(const Roster& roster, const NodeKey& key);

// For a membership that is not known yet. False: it is not remembered. `room`: bytes that nodes may
// take. `recovering`: then when a lost node was heard last may tell how long its workers can live,
// and none is forgotten.
bool MakeRoomFor(Roster& roster, const NodeKey& key, std::size_t room, bool recovering);

}  // namespace ddprun
