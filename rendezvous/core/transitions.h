// The moves that several events of the coordinator share: losing a node, draining, judging,
// forming, acting on a report.
//
// Internal to rendezvous/core. What is decided is decided by the features; here their answers are
// acted on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/state.h"
#include "rendezvous/messages/notice.h"

namespace ddprun {

// One Step's working set: what it reads and where its notices go.
struct CoordinatorStep {
  CoordinatorState& state;
  const CoordinatorConfig& config;
  Time now;
  std::vector<Notice> notices;
  NodeId from;  // Whose report it is; empty: it is none.

  void Say(NoticeLevel level, std::string text, std::string reason = {}) {
    notices.push_back({level, std::move(text), std::move(reason)});
  }
  void Say(const std::optional<StartupLine>& line) {
    if (line) {
      Say(line->first ? NoticeLevel::kDetail : NoticeLevel::kInfo, line->text);
    }
  }
  void Enter(Phase phase) {
    state.phase = phase;
    ++state.edition;
    state.since = now;
  }
};

void EndRun(CoordinatorStep& step, Finish outcome);

// Forms the next world if it is time to: whole, or the last call is over.
void TryForm(CoordinatorStep& step);

void JudgeIfDrained(CoordinatorStep& step);

// Judges, forms or grows, whichever is due.
void GoOn(CoordinatorStep& step);

void BeginDrain(CoordinatorStep& step, StopCause cause, bool membership);

// What the node's newest report means for the current world, or for the next one. `report`: with
// what is not kept of it.
void ActOnReport(CoordinatorStep& step, const NodeKey& key, const NodeReport& report);

// Its lease or its grace is over, or it must be counted as if: its effects are fenced from here.
void Lose(CoordinatorStep& step, const NodeKey& key, const std::string& why);

}  // namespace ddprun
