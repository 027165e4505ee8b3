#include "rendezvous/core/control.h"

#include <algorithm>

#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

// The newest membership, of those that are not over, of the node that is named so; or of the one
// node of the host that is.
const NodeState* FindNode(const CoordinatorState& state, const NodeId& name) {
  const NodeState* newest = nullptr;
  const NodeState* of_host = nullptr;
  bool several = false;
  for (const auto& [key, node] : state.nodes) {
    if (!IsThere(node)) {
      continue;
    }
    if (key.node == name && (newest == nullptr || node.joined > newest->joined)) {
      newest = &node;
    } else if (key.node.starts_with(name + "#")) {
      several |= of_host != nullptr && of_host->report.node != key.node;
      of_host = of_host == nullptr || node.joined > of_host->joined ? &node : of_host;
    }
  }
  return newest != nullptr || several ? newest : of_host;
}

std::string KnownNodes(const CoordinatorState& state) {
  std::string names;
  std::size_t named = 0;
  for (const auto& [key, node] : state.nodes) {
    if (IsThere(node) && named++ < kMaxNamed) {
      names += (names.empty() ? "" : " ") + key.node;
    }
  }
  return names.empty() ? "it has none"
                       : "its nodes are " + names + (named > kMaxNamed ? " ..." : "");
}

}  // namespace

ControlAnswer AnswerTo(const CoordinatorState& state, const Controlled& controlled) {
  if (HasEnded(state)) {
    return {false, "the " + NameOf(state.run_id) + " has ended: " + state.outcome->text};
  }
  if (controlled.verb == ControlVerb::kStop) {
    return {true, "the " + NameOf(state.run_id) +
                      " stops; its workers have time to save (--shutdown-timeout)"};
  }
  const NodeState* const node = FindNode(state, controlled.node);
  if (node == nullptr) {
    return {false, "the " + NameOf(state.run_id) + " has no node '" + controlled.node +
                       "': " + KnownNodes(state)};
  }
  const auto others = StayingNodes(state) - (node->report.leaving == Leaving::kNo ? 1 : 0);
  const std::uint32_t least = state.spec->min_nodes;
  const std::string left = std::to_string(others) + " of at least " + std::to_string(least) +
                           (others == 1 ? " nodes is left" : " nodes are left");
  // The only node mostly hosts the server too, which ends with it.
  const std::string then = others >= least ? "the others continue"
                           : others > 0    ? left + ": the run waits for more"
                           : state.spec->max_nodes == 1
                               ? "the run ends: it has no other node"
                               : "the run ends unless its server is on another host: it has "
                                 "no other node";
  return {true, "node " + node->report.node + " leaves the " + NameOf(state.run_id) + "; " + then};
}

void OnControlled(CoordinatorStepContext& step, const Controlled& controlled) {
  CoordinatorState& state = step.state;
  const ControlAnswer answer = AnswerTo(state, controlled);
  if (!answer.accepted) {
    return;
  }
  RunEvent& event =
      step.Say(kEventAsked, NoticeLevel::kInfo, "asked by an operator: " + answer.text);
  ++state.edition;
  if (controlled.verb == ControlVerb::kStop) {
    StopRun(step, /*interrupts=*/false);
    JudgeIfDrained(step);
    return;
  }
  const NodeReport& report = FindNode(state, controlled.node)->report;
  event.node = report.node;
  const NodeKey key{report.node, report.incarnation};
  Change(state, step.config, key, [](NodeState& node) {
    node.asked_to_leave = true;
    node.report.leaving = std::max(node.report.leaving, Leaving::kLeave);
  });
  const Member* const member = FindMember(state, key);
  if (IsActive(state) && member != nullptr && !member->succeeded) {
    BeginDrain(step, StopCause::kLeave, true);
  }
  GoOn(step);
}

}  // namespace ddprun
