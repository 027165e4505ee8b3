// Says how a run ended. Gathers what is known of a failed one on this node and tells it: the report
// on stderr, failure.json in a run directory that stays, and the error file of whoever started
// ddprun.
//
// Nothing here may fail the launch: what cannot be read or written is left out, or said in a line.
#pragma once

#include "agent/driver.h"
#include "launcher/config.h"
#include "launcher/run_directory.h"

namespace ddprun {

// A line on stderr, where there is something to say. What /dev/termination-log gets; "": nothing.
std::string SayHowItEnded(const Exit& exit);

// `exit` has a Finish with a root cause.
void ReportFailure(const Exit& exit, const LaunchConfig& config, const LastAttempt& attempt,
                   const RunDirectory& directory);

}  // namespace ddprun
