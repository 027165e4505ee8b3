// Claims, and what one candidate of failover.h is, hears and asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/messages/lateness.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {

struct Claim {
  std::uint64_t number = 0;  // 1, 2, ...
  Term term;                 // Of the server that holds it; larger than every earlier claim's.
  Endpoint endpoint;         // Where that server is.
  std::uint64_t counter = 0;
  bool closed = false;
  bool over = false;  // Closed because the run has ended: its finder begins another one.
  Duration lease{0};  // Of its server: longer than the least where its runs are large.
  // Runs that have ended, the last ones: announced only once they stand here, so that they are
  // known however the holder ends.
  std::vector<EndedRun> ended;
  std::optional<Died> died;  // Closed by its holder's guard.
  bool damaged = false;      // It cannot be read: all but `number` is of the claim before it.
  bool operator==(const Claim&) const = default;
};

// The facts about it that its holder's guard knows (held_claim.h).
struct HeldClaim {
  std::uint64_t number = 0;
  Term term;
  Died died;
  bool operator==(const HeldClaim&) const = default;
};

struct FailoverConfig {
  // The least lease; a large world's is as long as its server says. Too short: a busy leader loses
  // its claim; too long: a dead one is replaced late.
  Duration lease{kBaseLease};
  // The longest lease to which delays that were seen can lead: too short loses leaders on slow
  // file systems, too long delays every takeover after one delay.
  Duration long_lease{kLongLease};
  // This node holds the given endpoint and makes the first claim; false on all nodes: no run
  // begins.
  bool may_begin = false;
  // False: no agent here calls the server, so only moves of its claim show that it lives.
  bool listens = true;
  // The first server's address: where it is wrong, nodes find no server until there is a claim.
  Endpoint given;
  // The place of the claims in messages: a wrong one only misleads their reader.
  std::string claims = "the run directory";
};

// ---- Events ----
struct ClaimsRead {
  Time began;                   // When the read began: the claim was so at that moment or later.
  std::optional<Claim> newest;  // None: there is no claim yet.
};
struct ClaimsUnreadable {
  std::string text;
};
struct ServerHeard {  // The agent's call was answered.
  Term term;
  Duration lease{0};
};
// The agent's call failed. Proves nothing; but frequent looks find soon what a guard has to say.
struct ServerCallFailed {};
struct LaterTermHeard {  // By this server, in a node's report.
  Term term;
};
struct Claimed {
  Time began;  // Of the writing.
  Claim claim;
};
struct NotClaimed {
  bool was_first = false;  // Another node was first, which needs no message.
  std::string text;
};
struct CounterMoved {
  Time began;
  Claim claim;              // As it was written.
  bool superseded = false;  // There is a newer one.
};
struct CounterStuck {
  Term term;
  std::string text;
};
// This server's own, of the run with most nodes.
struct LeaseSet {
  Duration lease{0};
};
// All that are to be known from now on.
struct RunsEnded {
  std::vector<EndedRun> ended;
};
struct FailoverTick {};
using FailoverEvent = std::variant<ClaimsRead, ClaimsUnreadable, ServerHeard, ServerCallFailed,
                                   LaterTermHeard, Claimed, NotClaimed, CounterMoved, CounterStuck,
                                   LeaseSet, RunsEnded, FailoverTick>;

// ---- Effects ----
struct ReadClaims {};  // Answered by ClaimsRead or ClaimsUnreadable.
struct TakeClaim {     // Open a server, then the claim: Claimed or NotClaimed.
  std::uint64_t number = 0;
  Term above;                   // The new term must be larger.
  bool takes_over = false;      // A run may still run: recover it before anything is formed.
  bool over = false;            // The last claim says that its run has ended.
  std::vector<EndedRun> ended;  // Other runs that have ended, from the last claim.
  std::optional<Died> died;     // The node whose guard closed the last claim.
  Duration lease{0};            // The lease that the new claim will name.
};
struct MoveCounter {  // Answered by CounterMoved or CounterStuck.
  Claim claim;        // The claim's new text.
};
struct Follow {  // The agent calls this server from now on.
  Endpoint endpoint;
};
struct StepDown {  // Stop serving; close the claim if that is possible.
  std::string text;
  Claim claim;  // The claim's new text.
};
using FailoverEffect = std::variant<ReadClaims, TakeClaim, MoveCounter, Follow, StepDown, Notice>;

// ---- State ----
enum class FailoverPhase { kFollowing, kTaking, kServing };

struct FailoverState {
  FailoverPhase phase = FailoverPhase::kFollowing;
  std::optional<Claim> newest;      // As last read or written.
  bool was_open = false;            // The newest claim, when this process read or made it.
  std::optional<Time> still_since;  // Its counter was not seen to move since; none: not read yet.
  std::optional<Term> own;          // Of the last claim that this node held.
  std::optional<Endpoint> following;
  Term highest;  // Of all terms that servers had, and of the newest claim.
  Time heard;    // The server's last answer to the agent, or when it was found.
  bool ever_heard = false;
  bool failed = false;          // A call has, and none was answered since.
  Duration lease{0};            // As the server last said; serving: of this one.
  WindowedMax seen;             // Leases that this term's claim has named.
  WindowedMax lateness;         // Of this process, and of the claims.
  Time asked;                   // The last read, or move, began then.
  std::vector<EndedRun> ended;  // Serving: outcomes for the claim.
  Time begun;                   // This process's own start.
  bool busy = false;            // Reading, or moving the counter.
  Time next;                    // The next read, or move.
  // Serving: the counter of the last write, whether it succeeded or not. A counter that was written
  // but not acknowledged must not be written again: readers would not see that it has moved.
  std::uint64_t last_counter_written = 0;
  // Serving: the lease in the claim that readers know. Other nodes reckon with it.
  Duration published_lease{0};
  // Serving: this holder gives the claim up by then, because writes that have begun may publish a
  // shorter lease.
  Time step_down_by = Time::max();
  Time last_write_began;      // Serving: when the last write that succeeded began.
  Time last_write_confirmed;  // Serving: when that write was seen to succeed.
  Time resumed_at;            // When this process was last found to have stood still.
  Time last_event;            // When the last event came.
  bool told_missing = false;
  bool told_refused = false;
  bool told_unreadable = false;
};

}  // namespace ddprun
