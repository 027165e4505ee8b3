// `ddprun check`: looks at this machine, or has the nodes of a run look at theirs and meet.
#pragma once

#include "launcher/check/check_request.h"

namespace ddprun {

// The exit code. `launch` carries out the launch of several nodes. Call it before any thread
// exists.
int Check(const CheckRequest& request, const std::function<int(const LaunchConfig&)>& launch);

}  // namespace ddprun
