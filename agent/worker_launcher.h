// Starts one worker process with everything a worker's process must be: a session of its own
// (a helper: a process group), dead
// when the agent dies, default signals, the user's limits, no descriptor but its three.
//
// Blocks until execve has succeeded or failed, well below a millisecond. Waits for nobody.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <optional>

#include "agent/worker_spec.h"
#include "common/loop.h"
#include "common/result.h"

namespace ddprun {

// Limits as the user set them; the agent may raise its own. The first call remembers, so it is made
// before anything changes them.
const std::array<std::optional<rlimit>, RLIMIT_NLIMITS>& UserLimits();

// Descriptors that become 0, 1 and 2; each is that very number (inherited) or above 2.
using ChildStdio = std::array<int, 3>;

// The process id. The error names the step that failed, its object and the system's answer.
Result<pid_t> LaunchWorker(Loop& loop, const WorkerSpec& spec, const ChildStdio& stdio);

}  // namespace ddprun
