// A worker of a check of several nodes: `ddprun check --worker`, started as any worker is.
#pragma once

#include "launcher/check/check_request.h"

namespace ddprun {

// The file in which the launch that started it finds whether something is bad: "well" or "bad".
inline constexpr const char* kCheckVerdict = "DDPRUN_CHECK_VERDICT";

// The exit code: 0, whatever was found; 1: it could not be found out.
int RunCheckWorker(const CheckWorkerRequest& request);

}  // namespace ddprun
