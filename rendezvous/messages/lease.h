// All times that hang on a lease, as parts of one, each with the inequality that it must keep. L: a
// lease, of `max(base, nodes * per node, what lateness asks for)`.
//
//   |  0        1/3        2/3         1         4/3                   2
//   |  a move,  a move,    in doubt:   nodes     a holder              a claim is stale:
//   |  a poll   a poll     no world    are lost  lets go               taken over
#pragma once

#include "common/time.h"

namespace ddprun {

// ---- Nodes and their server ----
// No flag sets it. It is below kLongLease, or lateness and the first minute would lengthen nothing.
// A claim hangs on it too: a server that is lost is replaced after two of it.
inline constexpr Duration kBaseLease{1'000};
// Beyond that lateness lengthens no lease (lateness.h), so that no node, by being slow, puts off
// for longer the moment at which another one is replaced. Where there is no saying how late others
// are, as for a node that has just started, this one counts.
inline constexpr Duration kLongLease{3'000};
// A lease is at least so many times the longest time that was seen. So a node has used less than
// half of the 2/3 of a lease in which it must answer. A server that stood still has not lost its
// claim. A claim's move and one more lie well within their third.
inline constexpr int kTurnaroundsPerLease = 4;
inline constexpr int kStandstillsPerLease = 4;
inline constexpr int kClaimCallsPerLease = 9;
// For so long at least, and twice as long at most.
inline constexpr Duration kLatenessRemembered{300'000};
// Of claims that are read here and there one may be older than another, and name an outdated
// lease: the longest that was read counts for so many long leases, which is twice what a claim
// that stands still is waited for.
inline constexpr int kLongLeasesRemembered = 4;
// Before anything is known of them.
inline constexpr Duration kProbation{60'000};
// A server parks a call for L/3 at most: two in a row may be lost, and the lease is kept.
inline constexpr int kPollsPerLease = 3;
// An open call is given up after 1.3 polls: late enough for the answer, early enough for two more.
inline constexpr int kCallTimeoutTenths = 13;
// An agent that finds no server doubles its pause up to poll/4: a small run finds a restarted one
// at once, a large one gently.
inline constexpr int kTriesPerPoll = 4;
// Where polls are so long (some 1,000 nodes) what would come at one moment is spread: starts over
// a part of a poll, answers into batches.
inline constexpr Duration kLargeWorldsPoll{3'000};
inline constexpr int kStartsPerPoll = 12;
inline constexpr int kBatchesPerPoll = 64;
// From a closed connection to the loss of its node, however long a lease is. Above an agent's pause
// before it connects anew (20 to 50 ms), below a poll: a close tells of a loss sooner than silence.
inline constexpr Duration kDisconnectGrace{200};
// Memberships that are lost or know the end, and outcomes: for nodes that come late. Long leases.
inline constexpr int kLeasesRemembered = 10;

// ---- Holder of a claim, and the nodes that would take over from it ----
inline constexpr int kMovesPerLease = 3;  // Of the counter; looks at it too. In these thirds count:
// A holder that cannot move it forms no world from here on: its nodes may count it as lost soon.
inline constexpr int kThirdsUntilDoubt = 2;
// It steps down; the time until others take over is for their slow reads and writes.
inline constexpr int kStepDownThirds = 4;
// Then others may take over: never before the holder has let go.
inline constexpr int kLeasesUntilStale = 2;
// Looks where the server is missed: nodes must find a new one within a lease.
inline constexpr int kReadsPerLeaseWhenMissed = 10;
// Looks while calls fail and the server is not missed yet: it may have died, and its guard say so.
inline constexpr int kReadsPerLeaseWhenFailed = 30;
// A tick that is late by more came late because this process stood still.
inline constexpr int kLateTicksPerLease = 6;

static_assert(kCallTimeoutTenths > 10 && 2 * kCallTimeoutTenths < 10 * kPollsPerLease);
static_assert(kThirdsUntilDoubt < kMovesPerLease && kMovesPerLease < kStepDownThirds);
static_assert(kStepDownThirds < kMovesPerLease * kLeasesUntilStale);
static_assert(kReadsPerLeaseWhenMissed > kMovesPerLease);
static_assert(kPollsPerLease * kDisconnectGrace < kBaseLease);
static_assert(kLateTicksPerLease > kMovesPerLease);
static_assert(kClaimCallsPerLease > kMovesPerLease);
static_assert(kBaseLease < kLongLease && kProbation <= kLatenessRemembered);

}  // namespace ddprun
