#include "rendezvous/core/control.h"

#include <algorithm>

#include "rendezvous/core/growth.h"
#include "rendezvous/core/node_index.h"

namespace ddprun {
namespace {

constexpr int kInterrupted = 130;

bool CountsForStop(const NodeState& node) {
  return !node.lost && !node.refused && !node.acknowledged;
}

// The node's newest membership, if it has one that is not over.
template <class State>
auto FindNode(State& state, const NodeId& id) -> decltype(&state.nodes.begin()->second) {
  decltype(&state.nodes.begin()->second) newest = nullptr;
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
    return {false, "the run '" + state.run_id + "' has ended: " + state.outcome->text};
  }
  if (controlled.verb == ControlVerb::kStop) {
    return {true, "the run '" + state.run_id + "' stops; its workers get the shutdown timeout"};
  }
  const NodeState* const node = FindNode(state, controlled.node);
  if (node == nullptr) {
    return {false, "the run '" + state.run_id + "' has no node '" + controlled.node +
                       "': " + KnownNodes(state)};
  }
  const auto staying = std::count_if(state.nodes.begin(), state.nodes.end(), [](const auto& e) {
    return CountsForStop(e.second) && e.second.report.leaving == Leaving::kNo;
  });
  const auto others = staying - (node->report.leaving == Leaving::kNo ? 1 : 0);
  const std::uint32_t least = state.shape->min_nodes;
  return {true, "node " + controlled.node + " leaves the run '" + state.run_id + "'" +
                    (others >= least
                         ? "; the others go on"
                         : "; " + std::to_string(others) + " of at least " + std::to_string(least) +
                               " nodes are left: the run waits for more")};
}

void OnControlled(CoordinatorTurn& turn, const Controlled& controlled) {
  CoordinatorState& state = turn.state;
  const ControlAnswer answer = AnswerTo(state, controlled);
  if (!answer.accepted) {
    return;
  }
  turn.Say(NoticeLevel::kWarning, "asked by an operator: " + answer.text);
  const bool active = state.phase == Phase::kRunning || state.phase == Phase::kDraining;
  ++state.edition;
  if (controlled.verb == ControlVerb::kStop) {
    if (!active) {
      EndRun(turn, Finish{Ending::kFailed, kInterrupted, "the run was stopped on request", {}});
      return;
    }
    BeginDrain(turn, StopCause::kOperator, true);
    JudgeIfDrained(turn);
    return;
  }
  NodeState& node = *FindNode(state, controlled.node);
  node.asked_to_leave = true;
  node.report.leaving = std::max(node.report.leaving, Leaving::kLeave);
  Refile(state, turn.config, node.report.node);
  const Member* const member =
      FindMember(state, NodeKey{node.report.node, node.report.incarnation});
  if (active && member != nullptr && !member->succeeded) {
    BeginDrain(turn, StopCause::kLeave, true);
  }
  JudgeIfDrained(turn);
  TryForm(turn);
  ConsiderGrowth(turn);
}

}  // namespace ddprun
