// The only place that reads a native wait status.
#pragma once

#include "common/exit_status.h"

namespace ddprun {

ExitStatus DecodeWaitStatus(int wait_status);

}  // namespace ddprun
