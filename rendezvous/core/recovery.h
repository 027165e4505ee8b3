// Decides how a server that is new to a run takes it over without disturbing it: what its nodes
// may still run is found out from their reports and, where there is one, from a journal.
//
// Pure. Nobody is told to start or stop anything while Recovering: every directive is a Wait, which
// changes nothing on a node. Never charges the budget for what it finds: the old server may have
// known a loss that this one cannot.
//
//   a journal knows the run, without an outcome---------------------------------> Recovering
//   Gathering, no world formed by this server: a report that hosts a world, has
//     a floor or carries another server's term (the first such one)-------------> Recovering
//   any phase but an end, no world formed by this server: a report of a newer
//     (term, generation, world id) than the newest known------------------------> Recovering
//
//   Recovering
//   | report    | collected; the newest (term, generation, world id) is the world looked for; |
//   |           | who names it takes its place there; so does who hosts nothing, where the    |
//   |           | journal knows it as a member (it has not heard of it yet, or has ended)     |
//   | all taken | each hosts, succeeded or has not started -> Running, nobody restarts        |
//   |           | else, the journal knows no newer world -> Draining, not charged             |
//   | node lost | its place is free again                                                     |
//   | a lease   | -> Draining, not charged, the missing are lost; no world heard of ->        |
//   |           | Gathering. With --fence-after, and no journal, it is as long as that        |
//
// The cause of such a drain is the one that the nodes were told last, so that a planned stop keeps
// its time to save.
#pragma once

#include "rendezvous/core/turn.h"

namespace ddprun {

// The part of a report that recovery takes. True: nothing else is to be done with it.
bool CollectForRecovery(CoordinatorTurn& turn, const NodeKey& key, const NodeReport& report);

// The lease of recovery is over: goes on without the missing.
void EndRecoveryIfDue(CoordinatorTurn& turn);

// The node is lost: its place is free again.
void LeavePlace(CoordinatorState& state, const NodeKey& key);

// How many nodes the world has that is looked for; 0: none is known, or it was found.
std::size_t NodesToRecover(const CoordinatorState& state);

Time EndOfRecovery(const CoordinatorState& state, const CoordinatorConfig& config);

// Who has not reported, as far as the journal knows names; at most kMaxNamed.
std::vector<NodeId> MissingFromRecovery(const CoordinatorState& state);

// A term is the wall clock's, in its low bits the index of a candidate server.
inline constexpr std::uint64_t kCandidates = 16;
inline Term TermOf(std::uint64_t unix_ms) {
  return {unix_ms * kCandidates};
}

// A server must reign under a higher term than any its nodes have heard, or they ignore it: its own
// term, or the next one after `heard`. A clock that went back is the only cause known.
Term ReignAfter(Term own, Term heard);

}  // namespace ddprun
