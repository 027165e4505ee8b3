#include "rendezvous/core/node_index.h"

#include <algorithm>
#include <utility>

#include "rendezvous/core/keeping.h"

namespace ddprun {
namespace {

bool IsOutsider(const CoordinatorState& state, const NodeKey& key) {
  if (!state.world) {
    return true;
  }
  const auto place = state.world->places.find(key);
  return place == state.world->places.end() || state.world->members[place->second].lost;
}

// The next moment at which time alone can change what is thought of the node.
std::optional<Time> DueTime(const CoordinatorState& state, const CoordinatorConfig& config,
                            const NodeKey& key, const NodeState& node) {
  if (node.lost) {
    return std::nullopt;
  }
  Time due = node.expires;
  if (node.acknowledged) {
    return due;
  }
  if (node.cancelled && !node.lease_decides) {
    due = std::min<Time>(due, *node.cancelled + config.disconnect_grace);
  }
  if (node.unconnected && HasSuccessor(state, key)) {
    due = std::min<Time>(due, *node.unconnected + config.disconnect_grace);
  }
  return node.held ? std::min(due, node.held->until) : due;
}

Filed FactsOf(const CoordinatorState& state, const CoordinatorConfig& config, const NodeKey& key,
              const NodeState& node) {
  Filed facts;
  facts.due = DueTime(state, config, key, node);
  facts.forget = node.forget;
  if (!node.lost) {
    facts.cancelled = node.cancelled;
  }
  const bool able = IsReady(state, key);
  facts.ready = able && !node.held;
  facts.held = able && node.held;
  facts.outsider = facts.ready && IsOutsider(state, key);
  facts.coming = !able && !node.lost && !node.refused && !node.acknowledged &&
                 node.report.leaving == Leaving::kNo && !node.report.draining &&
                 node.report.unkillable == 0;
  facts.served = !node.lost && !node.acknowledged;
  facts.bytes = BytesOf(key, node);
  return facts;
}

void Move(NodeIndex::Agenda& agenda, const NodeKey& key, const std::optional<Time>& from,
          const std::optional<Time>& to) {
  if (from == to) {
    return;
  }
  if (from) {
    agenda.erase({*from, key});
  }
  if (to) {
    agenda.emplace(*to, key);
  }
}

void CountChange(std::uint32_t& count, bool before, bool now) {
  count = count + (now ? 1 : 0) - (before ? 1 : 0);
}

void Enter(NodeIndex& index, const NodeKey& key, const Filed& before, const Filed& facts) {
  Move(index.due, key, before.due, facts.due);
  Move(index.forget, key, before.forget, facts.forget);
  if (before.cancelled != facts.cancelled) {
    if (before.cancelled) {
      index.cancelled.erase(index.cancelled.find(*before.cancelled));
    }
    if (facts.cancelled) {
      index.cancelled.insert(*facts.cancelled);
    }
  }
  CountChange(index.ready, before.ready, facts.ready);
  CountChange(index.held, before.held, facts.held);
  CountChange(index.outsiders, before.outsider, facts.outsider);
  CountChange(index.coming, before.coming, facts.coming);
  CountChange(index.served, before.served, facts.served);
  index.bytes = index.bytes + facts.bytes - before.bytes;
}

void File(CoordinatorState& state, const CoordinatorConfig& config, const NodeKey& key,
          NodeState& node) {
  const Filed facts = FactsOf(state, config, key, node);
  Enter(state.index, key, std::exchange(node.filed, facts), facts);
}

void Put(std::set<std::size_t>& set, std::size_t rank, bool in) {
  if (in) {
    set.insert(set.end(), rank);
  } else {
    set.erase(rank);
  }
}

void CallRoll(const CoordinatorState& state, std::size_t rank, RollCall& roll) {
  const Member& member = state.world->members[rank];
  Put(roll.silent, rank, !member.hosted && !member.lost);
  Put(roll.unfinished, rank, !member.succeeded);
  Put(roll.undrained, rank, !IsDrained(state, member));
  Put(roll.lost, rank, member.lost);
}

}  // namespace

bool IsReady(const CoordinatorState& state, const NodeKey& key) {
  const NodeState& node = state.nodes.at(key);
  const NodeReport& report = node.report;
  // Who knows an end, an earlier server's perhaps, is about to go.
  if (node.lost || node.refused || node.acknowledged || report.leaving != Leaving::kNo ||
      report.draining || report.hosting != Hosting::kNothing || report.unkillable > 0) {
    return false;
  }
  const auto first = state.nodes.lower_bound(NodeKey{key.node, Incarnation{0}});
  for (auto it = first; it != state.nodes.end() && it->first.node == key.node; ++it) {
    const NodeState& other = it->second;
    // Who knows its end and hosts nothing will not come back.
    const bool gone = other.acknowledged && other.report.hosting == Hosting::kNothing;
    if (!other.lost && !other.refused && !gone && other.joined < node.joined) {
      return false;
    }
  }
  return true;
}

bool HasSuccessor(const CoordinatorState& state, const NodeKey& key) {
  const NodeState& node = state.nodes.at(key);
  const auto first = state.nodes.lower_bound(NodeKey{key.node, Incarnation{0}});
  for (auto it = first; it != state.nodes.end() && it->first.node == key.node; ++it) {
    if (!it->second.lost && !it->second.refused && it->second.joined > node.joined) {
      return true;
    }
  }
  return false;
}

bool IsDrained(const CoordinatorState& state, const Member& member) {
  if (member.fence) {
    return false;
  }
  const auto found = state.nodes.find(member.key);
  return member.lost || found == state.nodes.end() ||
         (found->second.report.hosting == Hosting::kNothing &&
          found->second.report.unkillable == 0 &&
          found->second.report.floor >= state.world->generation);
}

bool NeedsHeld(const CoordinatorState& state) {
  return state.shape && state.index.ready < state.shape->min_nodes;
}

std::uint32_t CountReady(const CoordinatorState& state) {
  return state.index.ready + (NeedsHeld(state) ? state.index.held : 0);
}

void Refile(CoordinatorState& state, const CoordinatorConfig& config, const NodeId& node) {
  const auto first = state.nodes.lower_bound(NodeKey{node, Incarnation{0}});
  for (auto it = first; it != state.nodes.end() && it->first.node == node; ++it) {
    File(state, config, it->first, it->second);
    if (state.world) {
      if (const auto place = state.world->places.find(it->first);
          place != state.world->places.end()) {
        CallRoll(state, place->second, state.world->roll);
      }
    }
  }
}

void Forget(CoordinatorState& state, const NodeKey& key) {
  const auto found = state.nodes.find(key);
  Enter(state.index, key, found->second.filed, Filed{});
  state.nodes.erase(found);
  ++state.edition;  // Its call may be parked.
  if (state.world) {
    if (const auto place = state.world->places.find(key); place != state.world->places.end()) {
      CallRoll(state, place->second, state.world->roll);
    }
  }
}

void RefileAll(CoordinatorState& state, const CoordinatorConfig& config) {
  for (auto& [key, node] : state.nodes) {
    File(state, config, key, node);
  }
  if (state.world) {
    for (std::size_t rank = 0; rank < state.world->members.size(); ++rank) {
      CallRoll(state, rank, state.world->roll);
    }
  }
}

NodeIndex IndexAfresh(const CoordinatorState& state, const CoordinatorConfig& config) {
  NodeIndex index;
  for (const auto& [key, node] : state.nodes) {
    Enter(index, key, Filed{}, FactsOf(state, config, key, node));
  }
  return index;
}

RollCall RollCallAfresh(const CoordinatorState& state) {
  RollCall roll;
  for (std::size_t rank = 0; rank < state.world->members.size(); ++rank) {
    CallRoll(state, rank, roll);
  }
  return roll;
}

}  // namespace ddprun
