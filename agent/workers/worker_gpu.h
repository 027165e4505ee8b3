// Which one GPU a worker sees when every worker is to believe itself alone (--virtual-local-rank).
//
// Counts no device: the agent's own environment lists the GPUs that it may see.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/result.h"

namespace ddprun {

// LOCAL_RANK=0 and the variables that show the worker of `local_rank` its GPU alone. An error where
// the agent's list has fewer entries.
Result<std::map<std::string, std::string>> AloneOnItsGpu(
    std::uint32_t local_rank, const std::map<std::string, std::string>& agent_environment);

}  // namespace ddprun
