// `ddprun status --pool=HOST:PORT`: the daemons of a pool and its runs, also those that wait.
//
// Only formatting of what the server tells; asks once.
#pragma once

#include <optional>
#include <string>

#include "launcher/server/server_files.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

// A pool is named, and no run of it.
bool AsksForPool(const ServerQuery& query);

// The whole pool, as text or as JSON. kUnavailable: no server answers, or it has no pool.
Result<std::string> PoolNow(const ServerQuery& server, bool json);

// A run that waits in the pool or has ended there, so that the server has no nodes of it; none: the
// place is no pool, or the pool does not know it.
std::optional<PoolQueued> QueuedRun(const ServerPlace& place, const RunId& run_id);

// That run alone.
std::string QueuedText(const PoolQueued& run, const ServerPlace& place, bool json);

}  // namespace ddprun
