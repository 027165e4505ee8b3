// Says how a run ended. Gathers what is known of a failed one on this node and tells it: the report
// on stderr, failure.json in a run directory that stays, and the error file of the process that
// started ddprun.
//
// Nothing here may fail the launch, or hold it up: a part that cannot be read or written within a
// second is left out, and a line names it. The loop waits for none of it.
#pragma once

#include <functional>
#include <string>

#include "agent/driver.h"
#include "common/loop.h"
#include "launcher/command_line/config.h"
#include "launcher/run_directory.h"

namespace ddprun {

// A line on stderr, where there is something to say. Returns the text for /dev/termination-log; "":
// nothing.
std::string SayHowItEnded(const Exit& exit);

// Of a run that was stopped on request: warns of this node's workers that SIGUSR1 or SIGUSR2 ended,
// because their program has no handler that saves.
void WarnOfUncaughtSignal(const Exit& exit, const LastAttempt& attempt);

// `exit` has a Finish with a root cause. `done` on the loop, later.
void ReportFailure(Loop& loop, const Exit& exit, const LaunchConfig& config,
                   const LastAttempt& attempt, const RunDirectory& directory,
                   std::function<void()> done);

}  // namespace ddprun
