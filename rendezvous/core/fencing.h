// --fence-after: how long a lost node's workers may still run, and so how long no node may take
// their place. Off (0) in a run that does not ask for it: then what keeps them harmless is the
// store of their own generation and the fence of their checkpoints.
//
// A node counts from when it *sent* the last report that was answered, the coordinator from when
// that or a later one *arrived*: so the node's workers are killed before the coordinator's wait is
// over, and no clocks are compared. A second more is given to the killing itself.
#pragma once

#include <optional>

#include "rendezvous/core/roster.h"

namespace ddprun {

inline constexpr Duration kKillTakes{1'000};  // Of a large process: its memory is given back first.

// For a node last heard at `heard`. Nothing: its workers cannot run any more. `spec`: unknown
// before the first report.
std::optional<Time> FenceFrom(const std::optional<RunSpec>& spec, Time heard, Time now);

// The next fence of the world's lost members that ends.
std::optional<Time> NextFence(const Roster& roster);

// Those that are over.
void EndFences(Roster& roster, const CoordinatorConfig& config, Time now);

// A member that was lost is back, with workers: it is answered, so the time begins anew. They stop
// like others do. Not if they outlive their end: it is not known for how long.
void FenceAnew(Roster& roster, const CoordinatorConfig& config, const NodeReport& report, Time now);

// A member that was lost is back and has promised: nothing of it runs any more. True: a fence has
// ended.
bool EndFenceOf(Roster& roster, const CoordinatorConfig& config, const NodeReport& report);

}  // namespace ddprun
