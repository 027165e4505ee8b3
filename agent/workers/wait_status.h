// The only place that reads a native wait status, and what its signals mean.
#pragma once

#include "common/exit_status.h"

namespace ddprun {

ExitStatus DecodeWaitStatus(int wait_status);

// Of a signal that a process gets for what it did itself.
bool IsOwnFault(const Killed& killed);

}  // namespace ddprun
