// Gathers what is known of a failed run on this node and tells it: the report on stderr,
// failure.json in a run directory that stays, and the error file of whoever started ddprun.
//
// Nothing here may fail the launch: what cannot be read or written is left out, or said in a line.
#pragma once

#include <cstdint>

#include "agent/driver.h"
#include "launcher/config.h"
#include "launcher/run_directory.h"

namespace ddprun {

// Processes that the kernel has killed for want of memory in this process's cgroup so far; 0 where
// it does not tell.
std::uint64_t OomKills();

// `exit` has a Finish with a root cause.
void ReportFailure(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                   const RunDirectory& directory, std::uint64_t oom_kills_at_start);

}  // namespace ddprun
