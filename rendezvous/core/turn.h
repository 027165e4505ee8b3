// The moves that several events of the coordinator share: losing a node, draining, judging,
// forming.
//
// Internal to rendezvous/core: only coordinator.cc, fencing.cc, recovery.cc and turn.cc include it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/coordinator.h"

namespace ddprun {

// One Step's working set: what it reads and where its notices go.
struct CoordinatorTurn {
  CoordinatorState& state;
  const CoordinatorConfig& config;
  Time now;
  std::vector<Notice> notices;

  void Say(NoticeLevel level, std::string text, std::string reason = {}) {
    notices.push_back({level, std::move(text), std::move(reason)});
  }
  void Enter(Phase phase) {
    state.phase = phase;
    ++state.edition;
    state.since = now;
  }
};

inline constexpr int kLeasesUntilForgotten = 10;  // Lost memberships, and those that knew the end.

bool HasEnded(const CoordinatorState& state);

// The run has ended, or all of its nodes have left it in order: nowhere can workers of it run.
bool NoWorkersRemain(const CoordinatorState& state);

// The node's place in the current world; nullptr for outsiders and members that were lost.
Member* FindMember(CoordinatorState& state, const NodeKey& key);

bool SpeaksOfWorld(const NodeReport& report, const World& world);

// What a member says of its workers' ends, while draining.
void CollectEvidence(CoordinatorTurn& turn, const NodeKey& key, const NodeReport& report);

void EndRun(CoordinatorTurn& turn, Finish outcome);

// Forms the next world if it is time to: whole, or the last call is over.
void TryForm(CoordinatorTurn& turn);

void JudgeIfDrained(CoordinatorTurn& turn);

void BeginDrain(CoordinatorTurn& turn, StopCause cause, bool membership);

// What the node's newest report means for the current world, or for the next one. `report`: with
// what is not kept of it.
void ActOnReport(CoordinatorTurn& turn, const NodeKey& key, const NodeReport& report);

// Its lease or its grace is over, or it must be counted as if: its effects are fenced from here.
void Lose(CoordinatorTurn& turn, const NodeKey& key, const std::string& why);

}  // namespace ddprun
