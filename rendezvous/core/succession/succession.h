// Decides which of several nodes serves the rendezvous, by claims in a directory that they share:
// whom this node's agent speaks to, when this node takes the server's part over, and when it lets
// go of it.
//
// Pure: no I/O, no clock, no threads, no logging; the driver carries out what Step returns, in
// order, and asks NextWake. Claims are numbered one after the other, and the next number can be
// made only once, so two nodes never hold the same one, however stale what they have read. Never
// takes over because of a refused connection, nor because of a directory that cannot be read.
//
// A claim is OPEN while its holder serves: its counter moves every third of a lease. It is CLOSED
// when its holder has given it up (OVER: since the run has ended; else the run may go on without
// it), and STALE when its counter stood still for two leases.
//
//   | what is heard         | Following                    | Taking         | Serving            |
//   |-----------------------|------------------------------|----------------|--------------------|
//   | no claim, or a closed | where this node holds the    | -              | -                  |
//   |   one, and no server  | endpoint given -> Taking (a  |                |                    |
//   |   was ever heard      | successor where it was let   |                |                    |
//   |                       | go); else wait for who does  |                |                    |
//   | no claim any more in  | an old listing: nothing is   | -              | -                  |
//   |   a directory         | known to have moved          |                |                    |
//   | newer claim, open     | follow its endpoint          | -              | step down          |
//   | counter moved         | the two leases begin anew    | -              | -                  |
//   | newest claim stale,   | -> Taking                    | -              | -                  |
//   |   server missed for a |                              |                |                    |
//   |   lease by the agent  |                              |                |                    |
//   | newest claim closed   | by a node of the run, or who | -              | -                  |
//   |                       | holds the endpoint -> Taking |                |                    |
//   | newest claim is what  | -> Taking                    | -              | -                  |
//   |   this node let go of |                              |                |                    |
//   | this node stood still | the server has a lease anew  | -              | -                  |
//   | directory unreadable  | the two leases begin anew    | -              | -                  |
//   | the claim is ours     | -                            | -> Serving     | -                  |
//   | it is not, or refused | -                            | -> Following,  | -                  |
//   |                       |                              | look again soon|                    |
//   | two are making one    | look again soon              | -              | -                  |
//   | counter not written   | -                            | -              | step down          |
//   |   for a lease         |                              |                |                    |
//   | a node has heard a    | -                            | -              | step down          |
//   |   later term          |                              |                |                    |
//   | a run has ended       | -                            | -              | write it at once   |
//
// Why the margins: a holder that cannot write (a directory) lets go a lease after the first write
// that could have failed, counted from the beginning of the last one that succeeded; a candidate
// waits two leases from a read that had ended to a read that began later. So two thirds of a lease
// lie between, and neither a slow directory nor a pause of either side makes two believe that they
// serve. If both do all the same (a holder that stands still does not know it), terms keep the
// older one harmless: nodes that have heard the newer ignore it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {

struct Claim {
  std::uint64_t number = 0;  // 1, 2, ...
  Term term;                 // Of the server that holds it; larger than every earlier claim's.
  Endpoint endpoint;         // Where that server is.
  std::uint64_t counter = 0;
  bool closed = false;
  bool over = false;  // Closed because the run has ended: who finds it begins another one.
  Duration lease{0};  // Of its server: longer than the least where its runs are large.
  // Runs that have ended, the last ones: told only once they stand here, so that they are known
  // however the holder ends.
  std::vector<EndedRun> ended;
  bool operator==(const Claim&) const = default;
};

struct SuccessionConfig {
  Duration lease{kBaseLease};  // The least; a large world's is as long as its server says.
  bool may_begin = false;      // Holds the endpoint given: makes the first claim.
  bool may_serve = true;       // False: it only follows.
  bool listens = true;  // False: no agent here speaks to the server; its claim's moves must do.
  // Of a lease, after the beginning of the last move of the counter that succeeded. A directory
  // leaves room for slow reads and writes of others; witnesses refuse who comes too early.
  int thirds_to_let_go = kThirdsToLetGo;
  // Claims are kept by the nodes of a list, which forget them when all of them start anew.
  bool listed = false;
  // On the list. Of two that tried at once, and found no majority, the earlier tries again earlier.
  std::size_t place = 0;
  Endpoint given;                            // Where the first server is awaited.
  std::string claims = "the run directory";  // Where they are kept, for people.
};

// ---- Events ----
struct DirectoryRead {
  Time began;                   // Of the read: what it found was so at that moment or later.
  std::optional<Claim> newest;  // None: nobody has claimed anything yet.
};
struct DirectoryUnreadable {
  std::string text;
};
struct ClaimsContested {};  // Read while two nodes each had a share of a list: neither has claimed.
struct ServerHeard {        // The agent's call was answered.
  Term term;
  Duration lease{0};
};
struct LaterTermHeard {  // By this server, in a node's report.
  Term term;
};
struct Claimed {
  Time began;  // Of the writing.
  Claim claim;
};
struct NotClaimed {
  bool was_first = false;  // Another node was: not worth a word.
  std::string text;
};
struct CounterMoved {
  Time began;
  Claim claim;              // As it was written.
  bool superseded = false;  // There is a newer one.
};
struct CounterStuck {
  std::uint64_t number = 0;
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
struct SuccessionTick {};
using SuccessionEvent = std::variant<DirectoryRead, DirectoryUnreadable, ClaimsContested,
                                     ServerHeard, LaterTermHeard, Claimed, NotClaimed, CounterMoved,
                                     CounterStuck, LeaseSet, RunsEnded, SuccessionTick>;

// ---- Effects ----
struct ReadDirectory {};  // Answered by DirectoryRead or DirectoryUnreadable.
struct TakeClaim {        // Open a server, then the claim: Claimed or NotClaimed.
  std::uint64_t number = 0;
  Term above;                   // The reign's term must be larger.
  bool takes_over = false;      // A run may be going on: recover it before anything is formed.
  std::vector<EndedRun> ended;  // Others.
};
struct MoveCounter {  // CounterMoved or CounterStuck.
  Claim claim;        // As it shall be.
};
struct Follow {  // The agent speaks to this server from now on.
  Endpoint endpoint;
};
struct StepDown {  // Stop serving; close the claim if that is possible.
  std::string text;
  Claim claim;  // As it shall be.
};
using SuccessionEffect =
    std::variant<ReadDirectory, TakeClaim, MoveCounter, Follow, StepDown, Notice>;

// ---- State ----
enum class SuccessionPhase { kFollowing, kTaking, kServing };

struct SuccessionState {
  SuccessionPhase phase = SuccessionPhase::kFollowing;
  std::optional<Claim> newest;       // As last read or written.
  std::optional<Time> still_since;   // Its counter was not seen to move since; none: not read yet.
  std::optional<std::uint64_t> own;  // Number of the last claim that this node held.
  std::optional<Endpoint> following;
  Term highest;        // Of all terms that servers had, and of the newest claim.
  Term highest_heard;  // Without that claim.
  Time heard;          // The server's last answer to the agent, or when it was found.
  bool ever_heard = false;
  Duration lease{0};            // As the server last said; serving: of this one.
  std::vector<EndedRun> ended;  // Serving: what the claim is to say.
  Time begun;                   // This process's own start.
  bool busy = false;            // Reading, or moving the counter.
  Time next;                    // The next read, or move.
  // Serving: as last written, whatever came of it. One that was written but not acknowledged must
  // not be written again: its readers would not see that it has moved.
  std::uint64_t tried = 0;
  Duration told_lease{0};      // Serving: those who read the claim as last heard of count by it.
  Time shorter = Time::max();  // Let go of by then: writes were begun that may tell a shorter one.
  Time kept;                   // Serving: the last write that succeeded had begun then.
  Time renewed;                // It was seen to succeed then.
  Time woke;                   // This process was last found to have stood still.
  Time stepped;                // The last event's moment.
  bool told_missing = false;
  bool told_refused = false;
  bool told_unreadable = false;
};

std::vector<SuccessionEffect> Step(SuccessionState& state, const SuccessionConfig& config,
                                   const SuccessionEvent& event, Time now);

std::optional<Time> NextWake(const SuccessionState& state, const SuccessionConfig& config);

// Serving: no other node can have a newer claim before then. Not as long as the holder itself goes
// on serving, since a world formed in doubt would only be thrown away.
Time ClaimGoodUntil(const SuccessionState& state, const SuccessionConfig& config);

// The claim to make, of a reign that begins at `endpoint` now: numbers and terms grow, and no two
// reigns have one name. `clock`: the term that this machine's clock gives; `seed`: drawn for this
// reign alone.
Claim NewClaim(const TakeClaim& take, const SuccessionConfig& config, Term clock,
               std::uint64_t seed, const Endpoint& endpoint);

// The claim of the holder that gives it up.
Claim ClosedClaim(const SuccessionState& state, bool over);

// Before the first event.
void BeginSuccession(SuccessionState& state, Time now);

}  // namespace ddprun
