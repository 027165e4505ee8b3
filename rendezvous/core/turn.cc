#include "rendezvous/core/turn.h"

#include <algorithm>

#include "rendezvous/core/budget.h"
#include "rendezvous/core/describe.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/formation.h"
#include "rendezvous/core/growth.h"
#include "rendezvous/core/keeping.h"
#include "rendezvous/core/node_index.h"
#include "rendezvous/core/recovery.h"

namespace ddprun {
bool HasEnded(const CoordinatorState& state) {
  return state.phase == Phase::kSucceeded || state.phase == Phase::kFailed;
}

bool NoWorkersRemain(const CoordinatorState& state) {
  return HasEnded(state) ||
         (state.phase != Phase::kRecovering &&
          std::all_of(state.nodes.begin(), state.nodes.end(),
                      [](const auto& entry) { return entry.second.acknowledged; }));
}

Member* FindMember(CoordinatorState& state, const NodeKey& key) {
  if (!state.world) {
    return nullptr;
  }
  const auto place = state.world->places.find(key);
  if (place == state.world->places.end()) {
    return nullptr;
  }
  Member& member = state.world->members[place->second];
  return member.lost ? nullptr : &member;
}

bool SpeaksOfWorld(const NodeReport& report, const World& world) {
  return report.placement && report.placement->generation == world.generation &&
         report.placement->world_id == world.id;
}

void CollectEvidence(CoordinatorTurn& turn, const NodeKey& key, const NodeReport& report) {
  Drain& drain = *turn.state.drain;
  if (drain.planned || IsPlanned(drain.cause) || !SpeaksOfWorld(report, *turn.state.world)) {
    return;  // After a planned stop began, failures are its consequence.
  }
  Time first = turn.now;
  for (const Evidence& evidence : drain.evidence) {
    if (evidence.key == key) {
      first = std::min(first, evidence.when);
    }
  }
  std::erase_if(drain.evidence, [&](const Evidence& e) {
    drain.bytes -= e.key == key ? BytesOf(e.failure) : 0;
    return e.key == key;
  });
  for (const WorkerFailure& failure : report.failures) {
    drain.evidence.push_back({key, failure, first + failure.after});
    WorkerFailure& kept = drain.evidence.back().failure;
    const bool lags = drain.hang && drain.hang->rank == failure.rank;  // People ask for these.
    if (!lags && drain.bytes + BytesOf(kept) > turn.config.run_bytes / 4) {
      DropTexts(kept);
    }
    drain.bytes += BytesOf(kept);
  }
  if (!report.spawn_failure.empty() && drain.spawn_failures.size() < kMostSpawnFailures) {
    const std::string text = key.node + ": " + report.spawn_failure;
    if (std::find(drain.spawn_failures.begin(), drain.spawn_failures.end(), text) ==
        drain.spawn_failures.end()) {
      drain.spawn_failures.push_back(text);
    }
  }
}

void EndRun(CoordinatorTurn& turn, Finish outcome) {
  turn.Enter(outcome.ending == Ending::kSucceeded ? Phase::kSucceeded : Phase::kFailed);
  turn.state.outcome = std::move(outcome);
}

void TryForm(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  if (state.phase != Phase::kGathering || !state.shape) {
    return;
  }
  const std::uint32_t ready = CountReady(state);
  if (ready < state.shape->min_nodes) {
    state.last_call.reset();
    return;
  }
  const bool whole = ready >= state.shape->max_nodes || (state.world && state.index.coming == 0);
  if (!whole) {
    if (!state.last_call) {
      state.last_call = turn.now + state.shape->last_call;
    }
    if (turn.now < *state.last_call) {
      return;
    }
  }
  if (ClaimIsInDoubt(state, turn.now)) {
    return;
  }
  state.last_call.reset();
  state.drain.reset();
  state.world = MakeWorld(state, turn.config, ChooseMembers(state), turn.now);
  state.newest = state.world->generation;
  ++state.worlds_formed;
  RefileAll(state, turn.config);
  turn.Enter(Phase::kRunning);
  turn.Say(NoticeLevel::kDetail, "formed " + Describe(*state.world));
}

void JudgeIfDrained(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  if (state.phase != Phase::kDraining || !state.world->roll.undrained.empty()) {
    return;
  }
  // Also a node that had succeeded: it may have hosted the store.
  const bool lost = !state.world->roll.lost.empty();
  state.drain->membership |= lost;
  const Judgement judgement = JudgeWithinBudget(state, turn.now);
  if (judgement.outcome) {
    turn.Say(NoticeLevel::kDetail, "the run failed: " + judgement.outcome->text);
    EndRun(turn, *judgement.outcome);
    return;
  }
  if (judgement.charged) {
    turn.Say(
        NoticeLevel::kWarning,
        "restarting all workers (" + RestartsInWords(state, turn.now) + "): " +
            (judgement.root ? Describe(*judgement.root) : state.drain->spawn_failures.front()));
  } else {
    const StopCause cause = state.drain->cause == StopCause::kFailure && lost
                                ? StopCause::kNodeLost  // The failure was its consequence.
                                : state.drain->cause;
    turn.Say(NoticeLevel::kInfo, "generation " + std::to_string(state.world->generation.value) +
                                     " has stopped (" + Describe(cause) +
                                     "; not charged); forming the next one");
  }
  turn.Enter(Phase::kGathering);
  TryForm(turn);
}

void BeginDrain(CoordinatorTurn& turn, StopCause cause, bool membership) {
  CoordinatorState& state = turn.state;
  if (state.phase == Phase::kDraining) {
    state.drain->membership |= membership;
    if (cause == StopCause::kOperator) {
      state.drain->cause = cause;
      ++state.edition;
    } else if (cause == StopCause::kNodeLost && IsPlanned(state.drain->cause) &&
               state.drain->cause != StopCause::kOperator) {
      state.drain->cause = cause;  // Its peers' ranks are blocked: the long grace helps nobody.
      state.drain->began = turn.now;
      ++state.edition;
    }
    return;
  }
  state.drain = Drain{.cause = cause,
                      .began = turn.now,
                      .membership = membership,
                      .planned = IsPlanned(cause),
                      .evidence = {},
                      .spawn_failures = {},
                      .hang = {}};
  turn.Enter(Phase::kDraining);
  turn.Say(NoticeLevel::kDetail, "stopping generation " +
                                     std::to_string(state.world->generation.value) + ": " +
                                     Describe(cause));
}

void Lose(CoordinatorTurn& turn, const NodeKey& key, const std::string& why) {
  CoordinatorState& state = turn.state;
  NodeState& node = state.nodes.at(key);
  node.lost = true;
  node.forget = node.expires + kLeasesUntilForgotten * LeaseOf(state, turn.config);
  ++state.edition;
  if (!node.acknowledged) {
    turn.Say(NoticeLevel::kWarning, "node " + key.node + " is lost: " + why,
             FindMember(state, key) != nullptr ? "" : "a node in no world is lost");
    NoteLoss(state.growth, key.node, turn.now);
  }
  LeavePlace(state, key);
  Member* const member = FindMember(state, key);
  const bool mattered = member != nullptr && !member->succeeded;
  if (member != nullptr) {
    if (!member->succeeded && !IsDrained(state, *member)) {
      member->fence = FenceFrom(state, node.heard, turn.now);
    }
    member->lost = true;
    if (member->fence) {
      turn.Say(NoticeLevel::kInfo,
               "nobody takes the place of node " + key.node + " for " +
                   FormatDuration(std::chrono::floor<Duration>(*member->fence - turn.now)) +
                   ": so long its workers may run on (--fence-after)");
    }
  }
  Refile(state, turn.config, key.node);
  if (mattered && (state.phase == Phase::kRunning || state.phase == Phase::kDraining)) {
    BeginDrain(turn, StopCause::kNodeLost, true);
  }
}

}  // namespace ddprun
