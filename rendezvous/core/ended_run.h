// Decides what is remembered of a run that has ended, and which nodes are its own.
//
// Pure. A claim keeps these too: no server of the run tells how it ended before it stands there.
#pragma once

#include <cstddef>
#include <vector>

#include "rendezvous/core/world.h"

namespace ddprun {

// The memory of a run that has ended: its end, for a node of it that comes late.
struct EndedRun {
  RunId run_id;
  Generation newest;  // Highest generation given, hosted or promised away.
  Finish outcome;     // As much of its words as must not be lost.
  Term term;          // Of the server that ended it; none: an older program wrote it.
  bool operator==(const EndedRun&) const = default;
};

// The part that outlives the run's own state.
EndedRun ToRemember(const RunId& run_id, Generation newest, const Finish& outcome, Term term);

// In place of what was known of the same run; the oldest go where there are more than `most`.
void Remember(std::vector<EndedRun>& ended, const EndedRun& run, std::size_t most);

// Where two know something of the same run, the later one counts.
void Merge(std::vector<EndedRun>& ended, const std::vector<EndedRun>& others, std::size_t most);

// nullptr: no such run.
const EndedRun* FindEnded(const std::vector<EndedRun>& ended, const RunId& run_id);

// Its node has had an answer from a server of the run that has ended, and none of a later run of
// that name. Generations tell that of servers that knew of each other's; one whose nodes are all
// new begins with 1 again, so an older server's world is the ended run's whatever its generation.
bool IsOfEnded(const EndedRun& run, const NodeReport& report);

}  // namespace ddprun
