// Decides when a running world stops for nodes that came later, and for whom it does not.
//
// Pure. Arrivals are taken together: the world stops a moment after the last of them, soon after
// the first in any case, and at once when it cannot grow further. Never once a node has succeeded.
// A node that was lost again and again is held back for a time that doubles with each loss, unless
// without it the others are too few.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/turn.h"

namespace ddprun {

// After every event while running: puts off, gives up or begins the stop for arrivals.
void ConsiderGrowth(CoordinatorTurn& turn);

void NoteLoss(Growth& growth, const NodeId& node, Time now);

// For a node that comes now; nullopt: it is as welcome as any.
std::optional<Held> HoldBack(const Growth& growth, const NodeId& node, Time now);

// Fills in why a node that is held back waits.
void ExplainHold(const Held& held, Time now, WaitReason& reason);

// Why an outsider that is ready waits while a world runs.
WaitReason WhyOutside(const CoordinatorState& state, const NodeKey& key, Time now);

}  // namespace ddprun
