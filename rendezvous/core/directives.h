// Decides each node's directive, and when time alone may change it. Follows from a coordinator's
// state, and changes nothing.
#pragma once

#include <optional>

#include "rendezvous/core/state.h"

namespace ddprun {

// The directive for a node now. Unknown nodes wait; so does one that hosts nothing and echoes its
// Finish: that answer is only the receipt of its acknowledgement.
Directive DirectiveFor(const CoordinatorState& state, const CoordinatorConfig& config,
                       const NodeId& node, Incarnation incarnation, Time now);

// Why a run that gathers forms no world yet.
WaitReason GatheringReason(const CoordinatorState& state, Time now);

std::optional<Time> NextWake(const CoordinatorState& state, const CoordinatorConfig& config);

}  // namespace ddprun
