// One node's part of a check: it looks at itself and, where there are others, measures how fast it
// sends to them.
//
// Blocks, with a limit for each wait: for processes that have nothing else to do. Call it on the
// main thread.
#pragma once

#include <vector>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"
#include "launcher/check/check_report.h"
#include "launcher/command_line/config.h"

namespace ddprun {

// Bounded by --node-check-timeout and some seconds.
CheckedNode LookAtNode(const LaunchConfig& config);

// True: something is bad.
Result<bool> PrintReport(std::vector<CheckedNode> nodes, bool json);

// As a worker of a run, all of whose workers do so; rank 0 prints the report. True: something is
// bad on any node.
Result<bool> CheckWithOthers(const LaunchConfig& config, bool json);

// From now on, for as long as the process lives, takes all that is sent there.
Result<void> TakeLinks(UniqueFd listener);

// By plain TCP for half a second, to where another process takes it.
Result<CheckedLink> MeasureLink(std::size_t to, const Endpoint& other);

}  // namespace ddprun
