// All times that hang on a lease, each with the inequality that it must keep, and those beside them
// that are the same whatever the lease is. L: a lease, of `max(base, nodes * per node)`.
//
//   |  0        1/3        2/3         1         4/3        5/3         2
//   |  a move,  a move,    in doubt:   nodes     a holder lets go:      a claim is stale:
//   |  a poll   a poll     no world    are lost  directory  list        taken over
#pragma once

#include "common/time.h"

namespace ddprun {

// ---- Nodes and their server ----
inline constexpr Duration kBaseLease{3'000};
// A server parks a call for L/3 at most: two in a row may be lost, and the lease is kept.
inline constexpr int kPollsPerLease = 3;
// An open call is given up after 1.3 polls: late enough for the answer, early enough for two more.
inline constexpr int kTenthsOfAPollForAnAnswer = 13;
// An agent that finds no server doubles its pause up to poll/4: a small run finds a restarted one
// at once, a large one gently.
inline constexpr int kTriesPerPoll = 4;
// Where polls are so long (some 1,300 nodes) what would come at one moment is spread: starts over
// a part of a poll, answers into batches.
inline constexpr Duration kLargeWorldsPoll{3'000};
inline constexpr int kStartsPerPoll = 12;
inline constexpr int kBatchesPerPoll = 64;
// A closed connection to lost. Above an agent's pause before it connects anew (20 to 50 ms).
inline constexpr Duration kDisconnectGrace{200};
// Memberships that are lost or know the end, and outcomes: for those who come late.
inline constexpr int kLeasesRemembered = 10;

// ---- Holder of a claim, and those who would take its part over ----
inline constexpr int kMovesPerLease = 3;  // Of the counter; looks at it too. In these thirds count:
// A holder that cannot move it forms no world from here on: its nodes may count it as lost soon.
inline constexpr int kThirdsUntilDoubt = 2;
// It lets go: in a directory, whose reads and writes may be slow, or of a list, whose witnesses
// refuse who comes too early.
inline constexpr int kThirdsToLetGo = 4;
inline constexpr int kThirdsToLetGoOfList = 5;
// Then others may take over: never before the holder has let go.
inline constexpr int kLeasesUntilStale = 2;
// Looks where the server is missed: nodes must find a new one within a lease.
inline constexpr int kReadsPerLeaseWhenMissed = 10;
// Looks while calls fail and the server is not missed yet: it may have died, and its guard say so.
inline constexpr int kReadsPerLeaseWhenFailed = 30;
// A round with witnesses: look, back and move within one third; never less than a slow connect.
inline constexpr int kRoundsPerLease = 6;
inline constexpr Duration kLeastPatienceWithWitnesses{200};
// A tick later than that came late because this process stood still.
inline constexpr Duration kLateTick{500};

static_assert(kTenthsOfAPollForAnAnswer > 10 &&
              2 * kTenthsOfAPollForAnAnswer < 10 * kPollsPerLease);
static_assert(kThirdsUntilDoubt < kMovesPerLease && kMovesPerLease < kThirdsToLetGo);
static_assert(kThirdsToLetGo < kThirdsToLetGoOfList &&
              kThirdsToLetGoOfList < kMovesPerLease * kLeasesUntilStale);
static_assert(kReadsPerLeaseWhenMissed > kMovesPerLease && kRoundsPerLease > kMovesPerLease);
static_assert(kDisconnectGrace < kBaseLease / kPollsPerLease);
static_assert(kLeastPatienceWithWitnesses < kBaseLease / kMovesPerLease);
static_assert(kLateTick < kBaseLease / kMovesPerLease);

}  // namespace ddprun
