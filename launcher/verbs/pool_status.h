// `ddprun status --pool=HOST:PORT`: the daemons of a pool and its runs, also those that wait.
//
// Only formatting of what the server tells; asks once.
#pragma once

#include "launcher/verbs/status.h"

namespace ddprun {

// A pool is named, and no run of it.
bool AsksForPool(const ServerQuery& query);

// To stdout. 0; 69: no server answers, or it has no pool.
int PrintPool(const StatusRequest& request);

}  // namespace ddprun
