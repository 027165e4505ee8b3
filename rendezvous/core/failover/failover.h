// Decides which of several nodes serves the rendezvous, by claims in a directory that they share:
// which server this node's agent calls, when this node becomes the leader, and when it steps down.
//
// Pure: no I/O, no clock, no threads, no logging; the driver carries out what Step returns, in
// order, and asks NextWake. Claims are numbered one after the other, and the next number can be
// made only once, so two nodes never hold the same one, however stale what they have read. Never
// takes over because of a refused connection, nor because of a directory that cannot be read.
//
// A claim is OPEN while its holder serves: its counter moves every third of a lease. It is CLOSED
// when its holder has given it up (OVER: since the run has ended; else the run may continue without
// it) or its guard has, which saw it dead; and STALE when its counter stood still for two leases.
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
//   | a call failed         | look 30 times per lease      | -              | -                  |
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
// After a claim that is over a process begins another run only if it came after that run's end: no
// call of its agent was answered, and it has not read that claim open. Otherwise it is a successor:
// nodes that the last server never met may still come, and they must hear how the run ended.
//
// Why the margins: a holder that cannot write (a directory) lets go a lease after the first write
// that could have failed, counted from the beginning of the last one that succeeded; a candidate
// waits two leases from a read that had ended to a read that began later. So two thirds of a lease
// lie between, and neither a slow directory nor a pause of either side makes two believe that they
// serve. If both do all the same (a holder that stands still does not know it), terms keep the
// older one harmless: nodes that have heard the newer ignore it.
#pragma once

#include <vector>

#include "rendezvous/core/failover/state.h"

namespace ddprun {

std::vector<FailoverEffect> Step(FailoverState& state, const FailoverConfig& config,
                                 const FailoverEvent& event, Time now);

std::optional<Time> NextWake(const FailoverState& state, const FailoverConfig& config);

// Before the first event.
void BeginFailover(FailoverState& state, Time now);

}  // namespace ddprun
