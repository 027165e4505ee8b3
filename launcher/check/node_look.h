// One node, looked at by itself.
#pragma once

#include "launcher/check/check_report.h"
#include "launcher/check/check_request.h"

namespace ddprun {

// Waits for all of it; bounded by --node-check-timeout and some seconds. Call it on the main
// thread.
CheckedNode LookAtNode(const CheckWorkerRequest& request);

}  // namespace ddprun
