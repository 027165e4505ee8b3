#include "rendezvous/core/control.h"

#include <algorithm>

#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

bool CountsForStop(const NodeState& node) {
  return !node.lost && !node.refused && !node.acknowledged;
}

// The node's newest membership, if it has one that is not over.
const NodeState* FindNode(const CoordinatorState& state, const NodeId& id) {
  const NodeState* newest = nullptr;
  for (auto entry = state.nodes.lower_bound(NodeKey{id, {0}});
       entry != state.nodes.end() && entry->first.node == id; ++entry) {
    if (CountsForStop(entry->second) &&
        (newest == nullptr || entry->second.joined > newest->joined)) {
      newest = &entry->second;
    }
  }
  return newest;
}

std::string KnownNodes(const CoordinatorState& state) {
  std::string names;
  std::size_t named = 0;
  for (const auto& [key, node] : state.nodes) {
    if (CountsForStop(node) && named++ < kMaxNamed) {
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
  const auto staying = std::count_if(state.nodes.begin(), state.nodes.end(), [](const auto& e) {
    return CountsForStop(e.second) && e.second.report.leaving == Leaving::kNo;
  });
  const auto others = staying - (node->report.leaving == Leaving::kNo ? 1 : 0);
  const std::uint32_t least = state.spec->min_nodes;
  return {true, "node " + controlled.node + " leaves the " + NameOf(state.run_id) +
                    (others == 0 ? "; the run has no other node, and ends unless one joins"
                     : others >= least
                         ? "; the others continue"
                         : "; " + std::to_string(others) + " of at least " + std::to_string(least) +
                               " nodes are left: the run waits for more")};
}

void OnControlled(CoordinatorStepContext& step, const Controlled& controlled) {
  CoordinatorState& state = step.state;
  const ControlAnswer answer = AnswerTo(state, controlled);
  if (!answer.accepted) {
    return;
  }
  step.Say(kEventAsked, NoticeLevel::kInfo, "asked by an operator: " + answer.text).node =
      controlled.node;
  ++state.edition;
  if (controlled.verb == ControlVerb::kStop) {
    StopRun(step, /*interrupts=*/false);
    JudgeIfDrained(step);
    return;
  }
  const NodeReport& report = FindNode(state, controlled.node)->report;
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
