#include "rendezvous/core/keeping.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/core/node_index.h"

namespace ddprun {
namespace {

constexpr std::size_t kTreeNode = 48;  // Of a map or a set, beside its value.

std::size_t HeapOf(const std::string& text) {
  constexpr std::size_t kInPlace = 15;
  return text.size() > kInPlace ? text.size() + 1 : 0;
}

// Assigning an empty one would keep its memory.
template <class Container>
void Drop(Container& values) {
  Container().swap(values);
}

// What matters of an echo once its report has arrived: how a world was stopped, and that an end is
// known.
std::optional<Directive> EchoToKeep(const std::optional<Directive>& echo) {
  const bool matters =
      echo && (std::holds_alternative<Stop>(*echo) || std::holds_alternative<Finish>(*echo));
  return matters ? std::optional(WithoutWords(*echo)) : std::nullopt;
}

bool IsInWorld(const CoordinatorState& state, const NodeKey& key) {
  return state.world && state.world->places.contains(key);
}

// Who was lost in no world: what else is said to it is that. While a server recovers, when it was
// heard last may tell how long its workers can live.
void ForgetLost(CoordinatorState& state, const std::vector<NodeKey>& keys) {
  if (state.phase == Phase::kRecovering) {
    return;
  }
  for (const NodeKey& key : keys) {
    if (state.nodes.at(key).lost && !IsInWorld(state, key)) {
      Forget(state, key);
    }
  }
}

std::vector<NodeKey> MembershipsOf(const CoordinatorState& state, const NodeId& node) {
  std::vector<NodeKey> keys;
  for (auto it = state.nodes.lower_bound(NodeKey{node, Incarnation{0}});
       it != state.nodes.end() && it->first.node == node; ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

}  // namespace

NodeReport ToKeep(const NodeReport& report, bool in_world) {
  NodeReport kept = report;
  Drop(kept.run_id);
  kept.echo.reset();
  kept.echo = EchoToKeep(report.echo);
  Drop(kept.failures);
  Drop(kept.spawn_failure);
  if (kept.placement) {
    Drop(kept.placement->store.host);
  }
  if (!in_world) {
    Drop(kept.standings);
    kept.hung_rank.reset();  // Its peers are asked once it can be compared with them.
  }
  return kept;
}

NodeReport ToKeepOfPlace(const NodeReport& report) {
  NodeReport kept = ToKeep(report, false);
  Drop(kept.addresses);
  kept.failures = report.failures;
  for (WorkerFailure& failure : kept.failures) {
    DropTexts(failure);
  }
  return kept;
}

std::size_t BytesOf(const NodeKey& key, const NodeState& node) {
  const NodeReport& report = node.report;
  std::size_t bytes = kTreeNode + sizeof(std::pair<NodeKey, NodeState>) + 2 * HeapOf(key.node);
  bytes += 2 * (kTreeNode + sizeof(NodeIndex::Agenda::value_type) + HeapOf(key.node));
  bytes += HeapOf(report.host) + HeapOf(report.role) + HeapOf(report.store.host) +
           HeapOf(report.addresses) + HeapOf(report.seen_at);
  for (const Standing& standing : report.standings) {
    bytes += sizeof standing + HeapOf(standing.phase);
  }
  return bytes + (node.refused ? HeapOf(*node.refused) : 0);
}

std::size_t BytesOf(const WorkerFailure& failure) {
  return sizeof failure + HeapOf(failure.host) + HeapOf(failure.last_lines) + HeapOf(failure.hang) +
         HeapOf(failure.details.error_file) + HeapOf(failure.details.message) +
         HeapOf(failure.details.traceback);
}

std::size_t BytesOf(const Recovery::Place& place) {
  const NodeReport& report = place.report;
  return kTreeNode + sizeof place + 2 * HeapOf(report.node) + HeapOf(report.host) +
         HeapOf(report.role) + HeapOf(report.store.host) +
         report.failures.size() * sizeof(WorkerFailure);
}

std::size_t BytesOf(const CoordinatorState& state) {
  return state.index.bytes + state.recovery.bytes + (state.drain ? state.drain->bytes : 0);
}

void DropTexts(WorkerFailure& failure) {
  Drop(failure.last_lines);
  Drop(failure.hang);
  Drop(failure.details.error_file);
  Drop(failure.details.message);
  Drop(failure.details.traceback);
}

void LeaveOnePlaceEach(Recovery& recovery) {
  std::set<NodeId> nodes;
  std::erase_if(recovery.places, [&](const auto& place) {
    const bool again = !nodes.insert(place.second.key.node).second;
    recovery.bytes -= again ? BytesOf(place.second) : 0;
    return again;
  });
}

bool MakeRoomFor(CoordinatorTurn& turn, const NodeKey& key) {
  CoordinatorState& state = turn.state;
  if (MembershipsOf(state, key.node).size() >= kMostMemberships) {
    ForgetLost(state, MembershipsOf(state, key.node));
  }
  const auto fits = [&] { return BytesOf(state) + kMostOutside <= turn.config.run_bytes; };
  if (!fits()) {  // All at once: each forgetting makes the driver look at every call.
    std::vector<NodeKey> lost;
    for (const auto& [when, other] : state.index.forget) {
      lost.push_back(other);
    }
    ForgetLost(state, lost);
  }
  return fits() && MembershipsOf(state, key.node).size() < kMostMemberships;
}

}  // namespace ddprun
