// Decides how a server that is new to a run takes it over without disturbing it: what its nodes
// may still run is found out from their reports and, where there is one, from a journal.
//
// Pure: collects, and says what it has found; the coordinator acts. Nobody is told to start or stop
// anything while Recovering: every directive is a Wait, which changes nothing on a node. Never
// charges the budget for what it finds: the old server may have known a loss that this one cannot.
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
//   | gone      | the old server's own node, if its guard says so, is lost, and not waited for |
//   | all taken | each hosts, succeeded or has not started -> Running, nobody restarts        |
//   |           | else, it is the last world (a journal, or the guard, says so) -> Draining,  |
//   |           | not charged                                                                 |
//   | node lost | its place is free again                                                     |
//   | a lease   | -> Draining, not charged, the missing are lost; no world heard of ->        |
//   |           | Gathering. With --fence-after, and no journal, it is as long as that        |
//
// The cause of such a drain is the one that the nodes were told last, so that a planned stop keeps
// its time to save.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/core/roster.h"

namespace ddprun {

// A server that died with its node's agent, as that one's guard has left it: no process of this
// membership is left, and no newer world was told of.
struct Died {
  NodeKey key;
  WorldId world;
  std::optional<std::uint32_t> group_rank;  // None: it had no place there.
  bool operator==(const Died&) const = default;
};

// What is known of before, in one word each. A reign *takes over* from another one, whose claim
// said so; what runs a journal had is *journaled*; a server that is new to a run has *entered*
// Recovering for it; what it finds there is *recovered*. It *formed* a world if that is this
// reign's own.
//
// What a server that is new to a run has found out about the world that its nodes may still run.
struct Recovery {
  struct Place {
    NodeKey key;
    NodeReport report;  // As kept, and its failures. Stays when a node that knows the end is gone.
    // By the old server; what this one says since replaces the echo.
    std::optional<StopCause> told;
  };
  std::optional<Placement> newest;        // Of the newest world heard of; the shared part counts.
  std::map<std::uint32_t, Place> places;  // Group rank in it -> who has reported.
  std::size_t bytes = 0;                  // Of them.
  std::optional<World> journaled;         // The journal's last, as it was formed.
  bool entered = false;                   // Recovering has been, once.
  std::optional<Died> died;               // The old server: nobody waits for its node.
};

// What was found in the end.
struct Recovered {
  World world;
  bool goes_on = false;                   // All of it runs: nobody is disturbed.
  StopCause cause = StopCause::kFailure;  // Else: what stops it.
  bool perhaps_stale = false;             // Who is missing may run a newer one.
};

std::size_t BytesOf(const Recovery::Place& place);

// The first sign that another server has known this run, or of a newer world than was known. For a
// server that has formed no world, and does not recover already.
bool CallsForRecovery(const Recovery& recovery, const RunShape& shape, const NodeReport& report,
                      Term own);

// Takes what recovery can use of a report. True: all places are told, and nobody else need be
// waited for. `most_bytes`: of nodes and places together.
bool Collect(Recovery& recovery, const Roster& roster, const NodeKey& key, const NodeReport& report,
             std::size_t most_bytes);

// The looking is over; nothing: no node has workers. `began`: when the last answers of an earlier
// server can have come at the latest.
std::optional<Recovered> Conclude(Recovery& recovery, const Roster& roster, Time began, Time now);

// Nobody looks any more: who had reported of the world that was found.
std::map<std::uint32_t, Recovery::Place> TakePlaces(Recovery& recovery);

// Members of the world found that were heard, but not of it: they are as lost as one never heard,
// since what they run now is not known.
std::vector<NodeKey> SilentMembers(const Roster& roster);

// The node is lost: its place is free again.
void LeavePlace(Recovery& recovery, const NodeKey& key);

// When the looking ends: `since` it began, a lease; with --fence-after as long as that, unless the
// journal knows the newest world.
Time EndOfRecovery(const Recovery& recovery, const std::optional<RunShape>& shape, Time since,
                   Duration lease);

// Who has not reported, as far as the journal knows names; at most kMaxNamed.
std::vector<NodeId> MissingFromRecovery(const Recovery& recovery);

// A term is the wall clock's, with room between two of its milliseconds for reigns that follow one
// another. Claims and fences on disks are counted so: another number would make theirs unreal.
inline constexpr std::uint64_t kTermsOfAMillisecond = 16;
inline Term TermOf(std::uint64_t unix_ms) {
  return {unix_ms * kTermsOfAMillisecond};
}

// A server must reign under a higher term than any its nodes have heard, or they ignore it: its own
// term, or the next one after `heard`. A clock that went back is the only cause known.
Term ReignAfter(Term own, Term heard);

}  // namespace ddprun
