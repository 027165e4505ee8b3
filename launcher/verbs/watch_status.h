// `ddprun status --watch`: a run, looked at each second until it has ended, one text after the
// other.
//
// Asks on a connection of its own each time, so a server that moves is found again. A look that
// fails is shown in place of the run, and tried again for 15 s.
#pragma once

#include "launcher/verbs/status.h"

namespace ddprun {

// 0: the run has ended; 69: no server answers, or none any more; 1: refused, or the reader has
// gone.
int WatchStatus(const StatusRequest& request);

}  // namespace ddprun
