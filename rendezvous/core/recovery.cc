#include "rendezvous/core/recovery.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "rendezvous/core/admission.h"
#include "rendezvous/core/describe.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/formation.h"
#include "rendezvous/core/keeping.h"
#include "rendezvous/core/node_index.h"

namespace ddprun {
namespace {

// What a collected place says of its part of the world.
enum class Found { kMissing, kHosting, kSucceeded, kNotStarted, kEnded };

auto Age(const Placement& placement) {
  return std::tuple(placement.term, placement.generation, placement.world_id);
}

bool NamesWorld(const NodeReport& report, const Placement& world) {
  return report.placement && Age(*report.placement) == Age(world);
}

bool RecordIsNewest(const Recovery& recovery) {
  return recovery.recorded && recovery.newest &&
         recovery.recorded->id == recovery.newest->world_id &&
         recovery.recorded->generation == recovery.newest->generation;
}

std::optional<std::uint32_t> PlaceOf(const Recovery& recovery, const NodeKey& key,
                                     const NodeReport& report) {
  if (NamesWorld(report, *recovery.newest)) {
    return report.placement->group_rank < recovery.newest->group_size
               ? std::optional(report.placement->group_rank)
               : std::nullopt;
  }
  if (RecordIsNewest(recovery) && report.hosting == Hosting::kNothing) {
    const auto place = recovery.recorded->places.find(key);
    if (place != recovery.recorded->places.end()) {
      return static_cast<std::uint32_t>(place->second);
    }
  }
  return std::nullopt;
}

Found WhatIsFound(const CoordinatorState& state, std::uint32_t group_rank) {
  const Recovery& recovery = state.recovery;
  const auto place = recovery.places.find(group_rank);
  if (place == recovery.places.end()) {
    return Found::kMissing;
  }
  const NodeReport& report = place->second.report;
  const bool here = state.nodes.contains(place->second.key);
  if (!NamesWorld(report, *recovery.newest)) {
    const bool leaves = report.echo && std::holds_alternative<Finish>(*report.echo);
    return !here                                                   ? Found::kMissing
           : !leaves && report.floor < recovery.newest->generation ? Found::kNotStarted
                                                                   : Found::kEnded;
  }
  if (report.hosting == Hosting::kWorkers && report.failures.empty()) {
    return Found::kHosting;
  }
  return report.hosting == Hosting::kNothing && report.outcome == Outcome::kSucceeded
             ? Found::kSucceeded
             : Found::kEnded;
}

bool AllGoOn(const CoordinatorState& state) {
  for (std::uint32_t rank = 0; rank < state.recovery.newest->group_size; ++rank) {
    const Found found = WhatIsFound(state, rank);
    if (found == Found::kMissing || found == Found::kEnded) {
      return false;
    }
  }
  return true;
}

// The world from its nodes' own words. Who is missing is unknown but for its group rank; a
// newcomer takes that place.
World WorldFromReports(const CoordinatorState& state) {
  const Recovery& recovery = state.recovery;
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
      if (NamesWorld(report, *recovery.newest)) {
        member.key = place->second.key;
        member.workers = report.workers;
        member.first_rank = report.placement->first_rank;
        member.role = report.role;
        member.role_first_rank = report.placement->role_first_rank;
        member.role_size = report.placement->role_world_size;
      } else {  // It has its place from the record.
        member = recovery.recorded->members[rank];
      }
      if (member.first_rank > world.size && !world.members.empty() && world.members.back().lost) {
        world.members.back().workers = member.first_rank - world.size;
      }
    } else {
      member.key.node = "(group rank " + std::to_string(rank) + ")";
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

// A server that recovered the world without some of its nodes recorded no more of those than their
// group ranks. Once one of them reports, the reports together know more than the record.
bool RecordNamesWhoReports(const Recovery& recovery) {
  const auto& members = recovery.recorded->members;
  return std::all_of(recovery.places.begin(), recovery.places.end(), [&](const auto& place) {
    return place.first < members.size() && members[place.first].key == place.second.key;
  });
}

// When the missing may have had their last answer: of an earlier server, while this one began, or
// of this one.
Time MissingAnswered(const CoordinatorTurn& turn) {
  Time answered = std::min(turn.now, turn.state.since + LeaseOf(turn.state, turn.config));
  for (const auto& [key, node] : turn.state.nodes) {
    if (node.lost) {
      answered = std::max(answered, node.heard);
    }
  }
  return answered;
}

World FoundWorld(const CoordinatorTurn& turn) {
  const CoordinatorState& state = turn.state;
  const Recovery& recovery = state.recovery;
  const Time answered = MissingAnswered(turn);
  World world = RecordIsNewest(recovery) && RecordNamesWhoReports(recovery)
                    ? *recovery.recorded
                    : WorldFromReports(state);
  world.formed = turn.now;
  for (std::uint32_t rank = 0; rank < world.members.size(); ++rank) {
    Member& member = world.members[rank];
    const Found found = WhatIsFound(state, rank);
    member.hosted = found != Found::kMissing && found != Found::kNotStarted;
    member.succeeded = found == Found::kSucceeded;
    member.lost = found == Found::kMissing;
    if (member.lost) {
      member.fence = FenceFrom(state, answered, turn.now);
    }
  }
  return world;
}

// Whether ranks follow each other without gaps, as every world's do.
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

// Why the old server stopped that world, if this node has heard so.
std::optional<StopCause> ToldCause(const NodeReport& report, WorldId world) {
  const Stop* const stop = report.echo ? std::get_if<Stop>(&*report.echo) : nullptr;
  const bool of_world = stop != nullptr && stop->world_id == world &&
                        stop->cause != StopCause::kSuperseded &&
                        stop->cause != StopCause::kDeclaredLost;
  return of_world ? std::optional(stop->cause) : std::nullopt;
}

// What stops this world: what the old server told its nodes, as far as they have heard it.
StopCause CauseOfDrain(const CoordinatorState& state, const World& world) {
  std::optional<StopCause> told;
  bool missing = false;
  bool leaves = false;
  for (const Member& member : world.members) {
    missing |= member.lost;
    const auto node = state.nodes.find(member.key);
    leaves |= node != state.nodes.end() && node->second.report.leaving == Leaving::kLeave;
  }
  for (const auto& [rank, place] : state.recovery.places) {
    if (place.told && (!told || IsPlanned(*told))) {
      told = place.told;
    }
  }
  if (missing) {
    return StopCause::kNodeLost;
  }
  return told ? *told : leaves ? StopCause::kLeave : StopCause::kFailure;
}

void BeginRecovery(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  state.recovery.begun = true;
  state.world.reset();
  state.drain.reset();
  state.last_call.reset();
  RefileAll(state, turn.config);
  turn.Enter(Phase::kRecovering);
  turn.Say(NoticeLevel::kInfo, "run '" + state.run_id +
                                   "' is known to its nodes from another server: collecting "
                                   "their reports, workers go on");
}

// Every report once more, now that there is a world, or none, to relate it to.
void ActOnAllReports(CoordinatorTurn& turn,
                     const std::map<std::uint32_t, Recovery::Place>& places) {
  std::map<NodeKey, const NodeReport*> fuller;  // With their failures.
  for (const auto& [rank, place] : places) {
    fuller[place.key] = &place.report;
  }
  std::vector<NodeKey> keys;
  for (const auto& [key, node] : turn.state.nodes) {
    if (!node.lost && !node.refused) {
      keys.push_back(key);
    }
  }
  for (const NodeKey& key : keys) {
    if (HasEnded(turn.state)) {
      return;
    }
    const NodeReport& newest = turn.state.nodes.at(key).report;
    const auto place = fuller.find(key);
    const bool same = place != fuller.end() && place->second->sequence == newest.sequence;
    ActOnReport(turn, key, same ? *place->second : newest);
  }
  JudgeIfDrained(turn);
  TryForm(turn);
}

// One that was heard, but not of the world that it belongs to, is as lost as one never heard: what
// it runs now is not known.
void LoseTheSilent(CoordinatorTurn& turn) {
  std::vector<NodeKey> silent;
  for (const Member& member : turn.state.world->members) {
    const auto node = turn.state.nodes.find(member.key);
    if (member.lost && node != turn.state.nodes.end() && !node->second.lost) {
      silent.push_back(member.key);
    }
  }
  for (const NodeKey& key : silent) {
    Lose(turn, key, "it has not told a new server that it runs the newest world");
  }
}

void EndRecovery(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  state.recovery.begun = true;
  if (!state.recovery.newest) {
    turn.Enter(Phase::kGathering);
    turn.Say(NoticeLevel::kInfo, "no node of run '" + state.run_id + "' has workers: going on");
    ActOnAllReports(turn, {});
    return;
  }
  LeaveOnePlaceEach(state.recovery);
  state.world = FoundWorld(turn);
  RefileAll(state, turn.config);
  const std::string what = Describe(*state.world);
  if (IsWhole(*state.world, *state.recovery.newest) && AllGoOn(state)) {
    turn.Enter(Phase::kRunning);
    turn.Say(NoticeLevel::kInfo, "recovered " + what + "; no worker was disturbed");
  } else {
    turn.Say(NoticeLevel::kInfo, "recovered " + what + ", which cannot go on as it is");
    BeginDrain(turn, CauseOfDrain(state, *state.world), true);
    LoseTheSilent(turn);
  }
  const auto places = std::exchange(state.recovery.places, {});
  state.recovery.bytes = 0;
  ActOnAllReports(turn, places);
}

void TakePlace(CoordinatorTurn& turn, std::uint32_t rank, const NodeKey& key,
               const NodeReport& report) {
  Recovery& recovery = turn.state.recovery;
  const auto found = recovery.places.find(rank);
  const bool room = BytesOf(turn.state) < turn.config.run_bytes;  // A liar may take many.
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

// The first sign that another server has known this run, or of a newer world than was known.
bool CallsForRecovery(const CoordinatorTurn& turn, const NodeReport& report) {
  const CoordinatorState& state = turn.state;
  const Recovery& recovery = state.recovery;
  if (state.worlds_formed > 0 || state.phase == Phase::kRecovering) {
    return false;
  }
  const bool possible = report.placement && IsPossible(*report.placement, report, *state.shape);
  if (recovery.begun) {
    return possible && report.hosting != Hosting::kNothing &&
           (!recovery.newest || Age(*report.placement) > Age(*recovery.newest));
  }
  const bool of_another = report.term != Term{} && report.term != turn.config.term;
  return report.hosting != Hosting::kNothing || report.floor > Generation{} || of_another;
}

}  // namespace

bool CollectForRecovery(CoordinatorTurn& turn, const NodeKey& key, const NodeReport& report) {
  CoordinatorState& state = turn.state;
  Recovery& recovery = state.recovery;
  if (CallsForRecovery(turn, report)) {
    BeginRecovery(turn);
  }
  if (state.phase != Phase::kRecovering) {
    return false;
  }
  if (report.placement && IsPossible(*report.placement, report, *state.shape) &&
      (!recovery.newest || Age(*report.placement) > Age(*recovery.newest))) {
    recovery.newest = report.placement;
    recovery.places.clear();
    recovery.bytes = 0;
  }
  if (!recovery.newest) {
    return true;
  }
  if (const auto place = PlaceOf(recovery, key, report)) {
    TakePlace(turn, *place, key, report);
  }
  // A world that ended, and of which no record says that it is the newest, may have been followed
  // by one whose nodes have not been heard yet.
  const bool all_told = recovery.places.size() == recovery.newest->group_size;
  if (all_told && (RecordIsNewest(recovery) || AllGoOn(state))) {
    EndRecovery(turn);
  }
  return true;
}

void EndRecoveryIfDue(CoordinatorTurn& turn) {
  if (turn.state.phase == Phase::kRecovering &&
      turn.now >= EndOfRecovery(turn.state, turn.config)) {
    EndRecovery(turn);
  }
}

void LeavePlace(CoordinatorState& state, const NodeKey& key) {
  std::erase_if(state.recovery.places, [&](const auto& place) {
    state.recovery.bytes -= place.second.key == key ? BytesOf(place.second) : 0;
    return place.second.key == key;
  });
}

std::size_t NodesToRecover(const CoordinatorState& state) {
  const bool looking = state.phase == Phase::kRecovering && state.recovery.newest;
  return looking ? state.recovery.newest->group_size : 0;
}

Time EndOfRecovery(const CoordinatorState& state, const CoordinatorConfig& config) {
  const Duration lease = LeaseOf(state, config);
  // Whom nobody has told about may run a world that nobody has told about.
  const bool sure = !state.shape || RecordIsNewest(state.recovery);
  const auto fence = sure ? std::nullopt : FenceFrom(state, state.since, state.since);
  return std::max(state.since + lease, fence.value_or(state.since));
}

std::vector<NodeId> MissingFromRecovery(const CoordinatorState& state) {
  std::vector<NodeId> missing;
  if (!RecordIsNewest(state.recovery)) {
    return missing;
  }
  const std::vector<Member>& members = state.recovery.recorded->members;
  for (std::uint32_t rank = 0; rank < members.size() && missing.size() < kMaxNamed; ++rank) {
    if (!state.recovery.places.contains(rank)) {
      missing.push_back(members[rank].key.node);
    }
  }
  return missing;
}

Term ReignAfter(Term own, Term heard) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // Beyond it no server can have counted.
  return heard <= own || heard.value > kMost ? own : TermOf(heard.value / kCandidates + 1);
}

}  // namespace ddprun
