// Decides whether a running world hangs, and which rank is to blame, from the STEP and PHASE that
// its workers report.
//
// Pure. An agent only finds that a worker of its own is *late*: without progress for longer than it
// may be. Late does not mean hung: a rank that waits in a collective for a slow peer, or for rank
// 0's checkpoint, is late through no fault of its own. A world hangs when all ranks that are
// furthest behind are late. This is decided once every member has reported after the first late
// worker.
//
//   the ranks at the lowest STEP are...         to blame
//   not all late                                none, so far
//   fewer, and no rank was ahead of them for    none: all waited for a rank that has continued, and
//   as long as they may be without progress     their next STEP will come soon
//   at most half of all                         the first of them
//   more, one of them alone in its PHASE while
//     all others share another (three or more)  that one
//   anything else                               unknown: no rank lags
//
// If no rank reports a STEP, progress is only seen from outside, which proves less
// (ProgressSource). Then a world hangs when all ranks that are seen are late and, if collectives
// are counted, one of them waits in one. So long work that each rank does by itself, such as a
// first compile, is no hang, unless a start takes longer than --start-timeout: then all are late,
// and some have not begun. The smaller group of compared ranks is to blame, behind or ahead; of
// equal ranks, one that waits in no collective.
//
// Workers that never said hello, have ended, or belong to a lost node are ignored. But before the
// first STEP of a world no rank is to blame until all running workers have said hello: those that
// are there wait for those that still start.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "rendezvous/core/roster.h"

namespace ddprun {

// Some worker is late. Every member's next report is awaited before a rank is blamed.
struct HangEnquiry {
  Generation generation;
  std::set<NodeKey> unheard;  // Members that have not reported since.
};

// From `when` on, or from shortly before, a rank was at this STEP.
struct Rise {
  Time when;
  std::uint64_t step = 0;
};

// Least time between two requests for evidence of a world that hangs and continues.
inline constexpr Duration kEvidenceEvery{60'000};

struct HangWatch {
  Generation generation;         // To which all of the following belongs.
  std::vector<Rise> rises;       // Of the highest STEP; bounded, with more recent ones than old.
  std::uint32_t ended_well = 0;  // Workers that have succeeded, counted when a hang was looked for.
  std::optional<Time> last_end;  // When `ended_well` last rose.
  std::optional<HangEnquiry> enquiry;
  std::string at;                // Where the ranks behind were when a hang was last looked for.
  std::string told;              // The hang that was announced, if nothing follows from it.
  std::optional<Time> evidence;  // When evidence of it was last asked for.
};

// Called after each report of a member of a running world. Returns the rank that is to blame (with
// local rank and host) and why; nothing: the world does not hang. A world that hangs must stop.
std::optional<WorkerFailure> LookForHang(HangWatch& watch, const Roster& roster, const NodeKey& key,
                                         const NodeReport& report, Time now);

}  // namespace ddprun
