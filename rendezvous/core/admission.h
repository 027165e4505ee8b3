// Which nodes a run accepts, and what a report may cause beyond its own node: an outsider that is
// let into a run can do no more to it than this allows.
//
// Internal to rendezvous/core. Decides nothing about worlds; changes nothing.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/core/roster.h"

namespace ddprun {

// Why this report can be used by no run.
std::optional<std::string> WhyMalformed(const NodeReport& report);

// Why this run cannot use it.
std::optional<std::string> WhyRefused(const Roster& roster, const NodeReport& report);

// Peers are not trusted to agree: a place outside the node's own bounds is ignored.
bool IsPossible(const Placement& placement, const NodeReport& report);

// Whether the node's request may end the run, and not only its own part: a member of the present
// world; where none runs, of the last one, or nodes that take a lost one's place; before the first
// world, those that have waited for it. `gathering`: no world runs.
bool MayStopRun(const Roster& roster, bool gathering, const NodeKey& key);

}  // namespace ddprun
