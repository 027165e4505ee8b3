// The moves that several events of the coordinator share: losing a node, draining, judging,
// forming, acting on a report.
//
// Internal to rendezvous/core. The features decide; here their answers are acted on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/state.h"
#include "rendezvous/messages/run_event.h"

namespace ddprun {

// One Step's working set: its inputs and its events.
struct CoordinatorStepContext {
  CoordinatorState& state;
  const CoordinatorConfig& config;
  Time now;
  std::vector<RunEvent> events;
  NodeId from;                        // The node whose report it is; empty: it is none.
  std::vector<NodeId> evidence = {};  // CoordinatorEffects'.

  // Of the world that there is, unless the caller says otherwise.
  RunEvent& Say(const char* kind, NoticeLevel level, std::string text) {
    RunEvent& event = events.emplace_back();
    event.kind = kind;
    event.level = level;
    event.text = std::move(text);
    event.generation = state.world ? state.world->generation : Generation{};
    return event;
  }
  void Say(const std::optional<StartupLine>& line);
  void Enter(Phase phase) {
    state.phase = phase;
    ++state.edition;
    state.since = now;
  }
};

// Says so where its node check refuses a node, or no longer does.
void NoteFitness(CoordinatorStepContext& step, const NodeReport& before, const NodeReport& report);

// Says which facts of its machine have turned bad, or good again.
void NoteFacts(CoordinatorStepContext& step, const NodeReport& before, const NodeReport& report);

void EndRun(CoordinatorStepContext& step, Finish outcome);

// Forms the next world if it is time to: whole, or the last call is over.
void TryForm(CoordinatorStepContext& step);

void JudgeIfDrained(CoordinatorStepContext& step);

// Judges, forms or grows, whichever is due.
void GoOn(CoordinatorStepContext& step);

void BeginDrain(CoordinatorStepContext& step, StopCause cause, bool membership);

// On request, by a node's signal or by a control call: after the workers have had time to save.
void StopRun(CoordinatorStepContext& step, bool interrupts);

// Applies the node's newest report to the current world, or to the next one. `report`: with what is
// not kept of it.
void ActOnReport(CoordinatorStepContext& step, const NodeKey& key, const NodeReport& report);

// The workers of a lost node may have finished before: a world that has finished is not formed
// again.
void TakeLateSuccess(CoordinatorStepContext& step, const NodeKey& key, const NodeReport& report);

// Its lease or its grace is over, or it must be counted as if: its effects are fenced from here.
void Lose(CoordinatorStepContext& step, const NodeKey& key, const std::string& why);

}  // namespace ddprun
