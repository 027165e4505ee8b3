// Gathers what is known of a failed run on this node and tells it: the report on stderr,
// failure.json in a run directory that stays, and the error file of whoever started ddprun.
//
// Nothing here may fail the launch: what cannot be read or written is left out, or said in a line.
#pragma once

#include "agent/driver.h"
#include "launcher/config.h"
#include "launcher/run_directory.h"

namespace ddprun {

// `exit` has a Finish with a root cause.
void ReportFailure(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                   const RunDirectory& directory);

}  // namespace ddprun
