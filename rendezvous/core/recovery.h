// Decides how a server that is new to a run takes it over without disturbing it: what its nodes
// may still run is found out from their reports.
//
// Pure: collects, and says what it has found; the coordinator acts. No node has to start or stop
// anything while Recovering: every directive is a Wait, which changes nothing on a node. Never
// charges the budget for what it finds: the old server may have known a loss that this one cannot.
//
//   another server served until now (its claim says so)------------------------> Recovering
//   Gathering, no world formed by this server: a report that hosts a world, has
//     a floor or carries another server's term (the first such one)-------------> Recovering
//   any phase but an end, no world formed by this server: a report of a newer
//     (term, generation, world id) than the newest known------------------------> Recovering
//
//   Recovering
//   | report    | collected; the newest (term, generation, world id) is the world looked for; |
//   |           | who names it takes its place there. Its options are the run's: a node with  |
//   |           | others is refused when Recovering ends                                      |
//   | gone      | the old server's own node, if its guard says so, is lost, and not waited for |
//   | all taken | each hosts or succeeded -> Running, no worker restarts                      |
//   |           | else, it is the last world (the guard says so) -> Draining, uses no restart |
//   | node lost | its place is free again                                                     |
//   | a lease   | -> Draining, uses no restart, the missing are lost; no world heard of ->    |
//   |           | Gathering. With --fence-after it is as long as that                         |
//
// The cause of such a drain is the last one that the nodes got, so that a planned stop keeps its
// time to save.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/core/roster.h"

namespace ddprun {

// A server that died with its node's agent, as that one's guard has left it: no process of this
// membership is left, and no node got a newer world.
struct Died {
  NodeKey key;
  WorldId world;
  std::optional<std::uint32_t> group_rank;  // None: it had no place there.
  bool operator==(const Died&) const = default;
};

// The words for what a server knows of the past. A term *takes over* from another one, whose claim
// said so; a server that is new to a run has *entered* Recovering for it; a world that it finds
// there is *recovered*. It *formed* a world if that is this term's own.
//
// The facts that a server that is new to a run has found out about the world that its nodes may
// still run.
struct Recovery {
  struct Place {
    NodeKey key;
    NodeReport report;  // As kept, and its failures. Stays when a node that knows the end is gone.
    // By the old server; directives of this one replace the echo.
    std::optional<StopCause> told;
  };
  std::optional<Placement> newest;        // A placement in the newest world that was reported.
  std::map<std::uint32_t, Place> places;  // By group rank in it: the nodes that have reported.
  std::size_t bytes = 0;                  // Of them.
  bool entered = false;                   // Recovering has been, once.
  std::optional<Died> died;               // The old server: its node is not waited for.
};

// The findings when Recovering ends.
struct Recovered {
  World world;
  bool goes_on = false;                   // All of it runs, so no worker is disturbed.
  StopCause cause = StopCause::kFailure;  // Why it is stopped, if it does not continue.
  bool perhaps_stale = false;             // Missing nodes may run a newer world.
};

std::size_t BytesOf(const Recovery::Place& place);

// Whether a report is the first sign that another server has known this run, or of a newer world.
// For a server that has formed no world and is not recovering already.
bool CallsForRecovery(const Recovery& recovery, const NodeReport& report, Term own);

// Whether a report names a newer world than the newest known.
bool IsNews(const Recovery& recovery, const NodeReport& report);

// Takes what recovery can use of a report. True: all places are known, and no other node need be
// waited for. `most_bytes`: for nodes and places together.
bool Collect(Recovery& recovery, const Roster& roster, const NodeKey& key, const NodeReport& report,
             std::size_t most_bytes);

// Ends the collecting and returns what was found; nothing: no node has workers. `began`: the latest
// time at which an answer of an earlier server can have arrived.
std::optional<Recovered> Conclude(Recovery& recovery, const Roster& roster, Time began, Time now);

// The collecting is over: takes the places of the world that was found.
std::map<std::uint32_t, Recovery::Place> TakePlaces(Recovery& recovery);

// The node is lost: its place is free again.
void LeavePlace(Recovery& recovery, const NodeKey& key);

// When the looking ends: `since` it began, a lease; with --fence-after as long as that, unless the
// guard knows the newest world.
Time EndOfRecovery(const Recovery& recovery, const std::optional<RunSpec>& spec, Time since,
                   Duration lease);

// A term is the wall clock's, with room between two of its milliseconds for terms that follow one
// another. Claims and fences on disks are counted so: another number would make theirs unreal.
inline constexpr std::uint64_t kTermsOfAMillisecond = 16;
inline Term TermOf(std::uint64_t unix_ms) {
  return {unix_ms * kTermsOfAMillisecond};
}

// The term that a server must have so that its nodes do not ignore it: its own, or the next
// one after `heard`. Only a clock that went back is known to make the second necessary.
Term TermAfter(Term own, Term heard);

}  // namespace ddprun
