// A run as a trace that Perfetto opens (proto/trace_file.h): trace.json.
//
//   starts and recoveries   a slice each, from the first bad news to the first step of all workers,
//                           with its parts in it: detect, stop, form, start, state, first_step
//   worlds                  a slice each, by generation: from its formation until nothing is left
//   what happened           an instant for each event of a node, of an operator, of the server
//   counters                step, loss and samples/s of the curve
//
// Pure. Times are the servers' wall clocks, as microseconds since the first one known, and never go
// back: the order is that of the events. Slices of one row never overlap: where clocks of two
// servers say otherwise, the later one begins where the earlier ends.
#pragma once

#include <string>

#include "launcher/evidence/run_story.h"

namespace ddprun {

std::string RunTrace(const RunStory& story);

}  // namespace ddprun
