// `ddprun check`: looks at this machine, or has the nodes of a run look at theirs and at the
// network between them.
#pragma once

#include <functional>

#include "launcher/command_line/config.h"

namespace ddprun {

struct CheckRequest {
  LaunchConfig launch;  // Its program is ddprun itself.
  bool json = false;
};

// The exit code. `launch` starts a worker on each of several nodes, which comes here again. Call it
// before any thread exists.
int Check(CheckRequest request, const std::function<int(const LaunchConfig&)>& launch);

}  // namespace ddprun
