// Decides whether a running world hangs, and which rank is to blame, from what its workers said of
// their STEP and PHASE.
//
// Pure. An agent only finds that a worker of its own is *late*: without progress for longer than it
// may be. Late is not hung: a rank that waits in a collective for a slow peer, or for rank 0's
// checkpoint, is late through no fault. A world hangs when everybody who is furthest behind is
// late; that is looked at once every member has reported after the first word of a late worker.
//
//   the ranks at the lowest STEP are...         to blame
//   not all late                                nobody, so far
//   fewer, and nobody was ahead of them for as  nobody: all waited for one, who has gone on, and
//   long as they may be without progress        they will tell their next STEP soon
//   at most half of all                         the first of them
//   more, one of them alone in its PHASE while
//     all others share another (three or more)  that one
//   anything else                               unknown: nobody lags
//
// Where nobody tells a STEP, what is seen from outside proves less (ProgressSource): a world then
// hangs when all that are seen are late, and, where collectives are counted, one of them waits in
// one; long work that all do for themselves, a first compile say, is never a hang, but for a start
// that takes longer than --start-timeout: then all are late, and some have not begun. Of those that
// are compared the fewer are to blame, behind or ahead; of equal ones who waits in none.
//
// Workers that never said hello, have ended, or are of a lost node count nowhere; but before the
// first STEP of a world nobody is to blame until all of its workers that run have said hello: who
// is there waits for who still starts.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "rendezvous/core/roster.h"

namespace ddprun {

// Somebody's workers make no progress; whose fault it is, is told by every member's next report.
struct HangEnquiry {
  Generation generation;
  std::set<NodeKey> unheard;  // Members that have not reported since.
};

// From then on somebody was at that STEP; perhaps a moment earlier.
struct Rise {
  Time when;
  std::uint64_t step = 0;
};

// Evidence of a world that hangs and goes on is asked for once in so long.
inline constexpr Duration kEvidenceEvery{60'000};

struct HangWatch {
  Generation generation;         // Of what follows.
  std::vector<Rise> rises;       // Of the highest STEP; so many at most, more of the last ones.
  std::uint32_t ended_well = 0;  // Workers, as last looked, where they are seen from outside,
  std::optional<Time> last_end;  // and when there was one more.
  std::optional<HangEnquiry> enquiry;
  std::string told;              // The one that was told where nothing follows from it,
  std::optional<Time> evidence;  // and when that was last asked for.
};

// After each report of a member of a running world: who is to blame (rank, local rank, host) and
// why, or nothing: the world does not hang. It is over if it does.
std::optional<WorkerFailure> LookForHang(HangWatch& watch, const Roster& roster, const NodeKey& key,
                                         const NodeReport& report, Time now);

}  // namespace ddprun
