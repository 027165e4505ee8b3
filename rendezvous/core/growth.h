// Decides when a running world stops for nodes that came later, and for which nodes it does not.
//
// Pure. Arrivals are taken together: the world stops a moment after the last of them, soon after
// the first in any case, and at once when it cannot grow further. Never once a node has succeeded.
// A node that was lost again and again is held back for a time that doubles with each loss, unless
// without it the others are too few.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/roster.h"

namespace ddprun {

// Nodes that came while a world runs, taken together; and which nodes were lost when.
struct Growth {
  std::optional<Time> first;   // Of the arrivals not yet taken in.
  std::optional<Time> go;      // The world stops for them then.
  std::uint32_t arrivals = 0;  // That many were there when `go` was last put off.
  std::map<NodeId, std::vector<Time>> losses;
};

// After every event: puts off, gives up or begins the stop for arrivals. Returns the names of the
// nodes that arrive, when a running world is to stop for them now.
std::optional<std::string> ConsiderGrowth(Growth& growth, const Roster& roster, bool may_stop,
                                          const CoordinatorConfig& config, Time now);

void NoteLoss(Growth& growth, const NodeId& node, Time now);

// For a node that comes now; nullopt: it is as welcome as any.
std::optional<Held> HoldBack(const Growth& growth, const NodeId& node, Time now);

// Fills in why a node that is held back waits.
void ExplainHold(const Held& held, Time now, WaitReason& reason);

// Why an outsider that is ready waits while a world runs.
WaitReason WhyOutside(const Growth& growth, const Roster& roster, const NodeKey& key, Time now);

}  // namespace ddprun
