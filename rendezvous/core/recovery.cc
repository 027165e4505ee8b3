#include "rendezvous/core/recovery.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/core/admission.h"
#include "rendezvous/core/bytes.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/retention.h"

namespace ddprun {
namespace {

// Whether the old server's guard says that no world is newer than the one looked for.
bool DiedInNewest(const Recovery& recovery) {
  return recovery.died && recovery.newest && recovery.died->world == recovery.newest->world_id;
}

// The place of the old server's own node in the world looked for: no process of it is left.
std::optional<std::uint32_t> GonePlace(const Recovery& recovery) {
  const bool of_world = DiedInNewest(recovery) && recovery.died->group_rank &&
                        *recovery.died->group_rank < recovery.newest->group_size;
  return of_world ? recovery.died->group_rank : std::nullopt;
}

// The state of its part of the world, by a collected place.
enum class Found { kMissing, kHosting, kSucceeded, kEnded };

auto Age(const Placement& placement) {
  return std::tuple(placement.term, placement.generation, placement.world_id);
}

bool NamesWorld(const NodeReport& report, const Placement& world) {
  return report.placement && Age(*report.placement) == Age(world);
}

std::optional<std::uint32_t> PlaceOf(const Recovery& recovery, const NodeReport& report) {
  const bool of_world = NamesWorld(report, *recovery.newest) &&
                        report.placement->group_rank < recovery.newest->group_size;
  return of_world ? std::optional(report.placement->group_rank) : std::nullopt;
}

// Whether every place is known, or will not be taken.
bool AllTold(const Recovery& recovery) {
  const std::optional<std::uint32_t> gone = GonePlace(recovery);
  const std::size_t nobody_s = gone && !recovery.places.contains(*gone) ? 1 : 0;
  return recovery.places.size() + nobody_s == recovery.newest->group_size;
}

Found WhatIsFound(const Recovery& recovery, std::uint32_t group_rank) {
  const auto place = recovery.places.find(group_rank);
  if (place == recovery.places.end()) {
    return Found::kMissing;
  }
  const NodeReport& report = place->second.report;
  if (report.hosting == Hosting::kWorkers && report.failures.empty()) {
    return Found::kHosting;
  }
  return report.hosting == Hosting::kNothing && report.outcome == Outcome::kSucceeded
             ? Found::kSucceeded
             : Found::kEnded;
}

bool AllGoOn(const Recovery& recovery) {
  for (std::uint32_t rank = 0; rank < recovery.newest->group_size; ++rank) {
    const Found found = WhatIsFound(recovery, rank);
    if (found == Found::kMissing || found == Found::kEnded) {
      return false;
    }
  }
  return true;
}

// The world as its nodes have reported it. Of a missing node only the group rank is known, and a
// new node will take that place.
World WorldFromReports(const Recovery& recovery) {
  World world;
  world.term = recovery.newest->term;
  world.generation = recovery.newest->generation;
  world.id = recovery.newest->world_id;
  world.store = recovery.newest->store;
  for (std::uint32_t rank = 0; rank < recovery.newest->group_size; ++rank) {
    Member member;
    member.first_rank = world.size;
    if (const auto place = recovery.places.find(rank); place != recovery.places.end()) {
      const NodeReport& report = place->second.report;
      member.key = place->second.key;
      member.workers = report.workers;
      member.first_rank = report.placement->first_rank;
      member.role = report.role;
      member.role_first_rank = report.placement->role_first_rank;
      member.role_size = report.placement->role_world_size;
      if (member.first_rank > world.size && !world.members.empty() && world.members.back().lost) {
        world.members.back().workers = member.first_rank - world.size;
      }
    } else {
      member.key.node = "(group rank " + std::to_string(rank) + ")";
      if (rank == GonePlace(recovery)) {
        member.key = recovery.died->key;
      }
      member.lost = true;
    }
    world.size = member.first_rank + member.workers;
    world.places[member.key] = world.members.size();
    world.members.push_back(std::move(member));
  }
  if (world.members.back().lost && recovery.newest->world_size > world.size) {
    world.members.back().workers = recovery.newest->world_size - world.size;
    world.size = recovery.newest->world_size;
  }
  return world;
}

World FoundWorld(const Recovery& recovery, const Roster& roster, Time began, Time now) {
  Time answered = std::min(now, began);  // When missing nodes may have had their last answer.
  for (const auto& [key, node] : roster.nodes) {
    if (node.lost) {
      answered = std::max(answered, node.heard);
    }
  }
  World world = WorldFromReports(recovery);
  world.formed = now;
  for (std::uint32_t rank = 0; rank < world.members.size(); ++rank) {
    Member& member = world.members[rank];
    const Found found = WhatIsFound(recovery, rank);
    member.hosted = found != Found::kMissing;
    member.succeeded = found == Found::kSucceeded;
    member.lost = found == Found::kMissing;
    if (member.lost && rank != GonePlace(recovery)) {
      member.fence = FenceFrom(roster.spec, answered, now);
    }
  }
  return world;
}

// Whether ranks follow each other without gaps, as in every world that was formed.
bool IsWhole(const World& world, const Placement& newest) {
  std::uint32_t next = 0;
  for (const Member& member : world.members) {
    if (member.first_rank != next) {
      return false;
    }
    next += member.workers;
  }
  return next == world.size && world.size == newest.world_size;
}

// Why the old server stopped that world, if this node knows.
std::optional<StopCause> ToldCause(const NodeReport& report, WorldId world) {
  const Stop* const stop = report.echo ? std::get_if<Stop>(&*report.echo) : nullptr;
  const bool of_world = stop != nullptr && stop->world_id == world &&
                        stop->cause != StopCause::kSuperseded &&
                        stop->cause != StopCause::kDeclaredLost;
  return of_world ? std::optional(stop->cause) : std::nullopt;
}

// The cause with which this world is stopped: the old server's, as far as its nodes know it.
StopCause CauseOfDrain(const Recovery& recovery, const Roster& roster, const World& world) {
  std::optional<StopCause> told;
  bool missing = false;
  bool leaves = false;
  for (const Member& member : world.members) {
    missing |= member.lost;
    const auto node = roster.nodes.find(member.key);
    leaves |= node != roster.nodes.end() && node->second.report.leaving == Leaving::kLeave;
  }
  for (const auto& [rank, place] : recovery.places) {
    if (place.told && (!told || IsPlanned(*told))) {
      told = place.told;
    }
  }
  if (missing) {
    return StopCause::kNodeLost;
  }
  return told ? *told : leaves ? StopCause::kLeave : StopCause::kFailure;
}

// A node that has named several places of the world looked for keeps only the first: a world in
// which a node is twice would never be drained.
void LeaveOnePlaceEach(Recovery& recovery) {
  std::set<NodeId> nodes;
  std::erase_if(recovery.places, [&](const auto& place) {
    const bool again = !nodes.insert(place.second.key.node).second;
    recovery.bytes -= again ? BytesOf(place.second) : 0;
    return again;
  });
}

// `room`: false if memory is used up; a false report may claim many places.
void TakePlace(Recovery& recovery, std::uint32_t rank, const NodeKey& key, const NodeReport& report,
               bool room) {
  const auto found = recovery.places.find(rank);
  if (found == recovery.places.end() ? !room : found->second.key != key) {
    return;
  }
  Recovery::Place& place = recovery.places[rank];
  recovery.bytes -= place.key == key ? BytesOf(place) : 0;
  place.key = key;
  place.report = ToKeepOfPlace(report);
  if (const auto cause = ToldCause(report, recovery.newest->world_id)) {
    place.told = cause;
  }
  recovery.bytes += BytesOf(place);
}

}  // namespace

std::size_t BytesOf(const Recovery::Place& place) {
  const NodeReport& report = place.report;
  return kTreeNode + sizeof place + 2 * HeapOf(report.node) + HeapOf(report.host) +
         HeapOf(report.role) + HeapOf(report.store.host) +
         report.failures.size() * sizeof(WorkerFailure);
}

bool IsNews(const Recovery& recovery, const NodeReport& report) {
  return report.placement && IsPossible(*report.placement, report) &&
         (!recovery.newest || Age(*report.placement) > Age(*recovery.newest));
}

bool CallsForRecovery(const Recovery& recovery, const NodeReport& report, Term own) {
  if (recovery.entered) {
    return report.hosting != Hosting::kNothing && IsNews(recovery, report);
  }
  const bool of_another = report.term != Term{} && report.term != own;
  return report.hosting != Hosting::kNothing || report.floor > Generation{} || of_another;
}

bool Collect(Recovery& recovery, const Roster& roster, const NodeKey& key, const NodeReport& report,
             std::size_t most_bytes) {
  if (IsNews(recovery, report)) {
    recovery.newest = report.placement;
    recovery.places.clear();
    recovery.bytes = 0;
  }
  if (!recovery.newest) {
    return false;
  }
  if (const auto place = PlaceOf(recovery, report)) {
    TakePlace(recovery, *place, key, report, roster.index.bytes + recovery.bytes < most_bytes);
  }
  // A world that ended may have been followed by one whose nodes have not been heard yet, unless
  // the guard of the old server knows of none.
  return AllTold(recovery) && (DiedInNewest(recovery) || AllGoOn(recovery));
}

std::optional<Recovered> Conclude(Recovery& recovery, const Roster& roster, Time began, Time now) {
  recovery.entered = true;
  if (!recovery.newest) {
    return std::nullopt;
  }
  LeaveOnePlaceEach(recovery);
  Recovered found{FoundWorld(recovery, roster, began, now)};
  found.goes_on = IsWhole(found.world, *recovery.newest) && AllGoOn(recovery);
  found.cause = CauseOfDrain(recovery, roster, found.world);
  const bool missing = std::any_of(found.world.members.begin(), found.world.members.end(),
                                   [](const Member& member) { return member.lost; });
  found.perhaps_stale = missing && !DiedInNewest(recovery);
  return found;
}

std::map<std::uint32_t, Recovery::Place> TakePlaces(Recovery& recovery) {
  recovery.bytes = 0;
  return std::exchange(recovery.places, {});
}

void LeavePlace(Recovery& recovery, const NodeKey& key) {
  std::erase_if(recovery.places, [&](const auto& place) {
    recovery.bytes -= place.second.key == key ? BytesOf(place.second) : 0;
    return place.second.key == key;
  });
}

// With --fence-after the wait is as long as that: an unknown node may run an unknown world.
Time EndOfRecovery(const Recovery& recovery, const std::optional<RunSpec>& spec, Time since,
                   Duration lease) {
  const auto fence = DiedInNewest(recovery) ? std::nullopt : FenceFrom(spec, since, since);
  return std::max(since + lease, fence.value_or(since));
}

Term TermAfter(Term own, Term heard) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // Beyond it no server can have counted.
  return heard <= own || heard.value > kMost ? own : TermOf(heard.value / kTermsOfAMillisecond + 1);
}

}  // namespace ddprun
