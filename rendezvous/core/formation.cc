#include "rendezvous/core/formation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace ddprun {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view TakeRun(std::string_view& text) {
  const bool digits = IsDigit(text.front());
  std::size_t end = 1;
  while (end < text.size() && IsDigit(text[end]) == digits) {
    ++end;
  }
  const std::string_view run = text.substr(0, end);
  text.remove_prefix(end);
  return run;
}

std::strong_ordering CompareDigits(std::string_view a, std::string_view b) {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  if (a.size() != b.size()) {
    return a.size() <=> b.size();
  }
  return a.compare(b) <=> 0;
}

bool ComesBefore(const CoordinatorState& state, const NodeKey& a, const NodeKey& b) {
  const NodeState& left = state.nodes.at(a);
  const NodeState& right = state.nodes.at(b);
  constexpr auto kNoRank = static_cast<std::uint32_t>(-1);
  const std::uint32_t left_rank = left.report.node_rank.value_or(kNoRank);
  const std::uint32_t right_rank = right.report.node_rank.value_or(kNoRank);
  if (left_rank != right_rank) {
    return left_rank < right_rank;
  }
  if (const auto order = CompareNatural(left.report.node, right.report.node); order != 0) {
    return order < 0;
  }
  return left.joined < right.joined;
}

// SplitMix64 (Steele, Lea, Flood 2014): distinct seeds and counters give distinct-looking ids.
std::uint64_t Mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// The last world's nodes keep their places; newcomers fill the holes, then follow.
std::vector<NodeKey> KeepPlaces(const World& last, const std::vector<NodeKey>& chosen) {
  std::map<NodeId, NodeKey> staying;
  for (const NodeKey& key : chosen) {
    staying.emplace(key.node, key);
  }
  std::set<NodeId> old;
  for (const Member& member : last.members) {
    old.insert(member.key.node);
  }
  std::vector<NodeKey> newcomers;
  std::copy_if(chosen.begin(), chosen.end(), std::back_inserter(newcomers),
               [&](const NodeKey& key) { return !old.contains(key.node); });
  std::vector<NodeKey> ordered;
  auto next = newcomers.begin();
  for (const Member& member : last.members) {
    if (const auto stays = staying.find(member.key.node); stays != staying.end()) {
      ordered.push_back(stays->second);
    } else if (next != newcomers.end()) {
      ordered.push_back(*next++);
    }
  }
  ordered.insert(ordered.end(), next, newcomers.end());
  return ordered;
}

}  // namespace

bool IsReady(const CoordinatorState& state, const NodeKey& key) {
  const NodeState& node = state.nodes.at(key);
  const NodeReport& report = node.report;
  if (node.lost || node.refused || report.leaving != Leaving::kNo || report.draining ||
      report.hosting != Hosting::kNothing || report.unkillable > 0) {
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

std::strong_ordering CompareNatural(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    const std::string_view left = TakeRun(a);
    const std::string_view right = TakeRun(b);
    const bool numbers = IsDigit(left.front()) && IsDigit(right.front());
    const auto order = numbers ? CompareDigits(left, right) : left.compare(right) <=> 0;
    if (order != 0) {
      return order;
    }
  }
  if (a.size() != b.size()) {
    return a.size() <=> b.size();
  }
  return whole_a.compare(whole_b) <=> 0;
}

std::uint32_t CountReady(const CoordinatorState& state) {
  return static_cast<std::uint32_t>(
      std::count_if(state.nodes.begin(), state.nodes.end(),
                    [&](const auto& entry) { return IsReady(state, entry.first); }));
}

std::vector<NodeKey> ChooseMembers(const CoordinatorState& state) {
  std::vector<NodeKey> chosen;
  for (const auto& [key, node] : state.nodes) {
    if (IsReady(state, key)) {
      chosen.push_back(key);
    }
  }
  std::set<NodeId> last_world;
  if (state.world) {
    for (const Member& member : state.world->members) {
      last_world.insert(member.key.node);
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](const NodeKey& a, const NodeKey& b) {
    const bool a_old = last_world.contains(a.node);
    const bool b_old = last_world.contains(b.node);
    return a_old != b_old ? a_old : state.nodes.at(a).joined < state.nodes.at(b).joined;
  });
  if (chosen.size() > state.shape->max_nodes) {
    chosen.resize(state.shape->max_nodes);
  }
  std::sort(chosen.begin(), chosen.end(),
            [&](const NodeKey& a, const NodeKey& b) { return ComesBefore(state, a, b); });
  const bool explicit_ranks = std::any_of(chosen.begin(), chosen.end(), [&](const NodeKey& key) {
    return state.nodes.at(key).report.node_rank.has_value();
  });
  return state.world && !explicit_ranks ? KeepPlaces(*state.world, chosen) : chosen;
}

World MakeWorld(const CoordinatorState& state, const CoordinatorConfig& config,
                const std::vector<NodeKey>& chosen, Time now) {
  World world;
  world.term = config.term;
  world.generation = state.newest.Next();
  world.id = {Mix(config.seed ^ Mix(state.worlds_formed + 1))};
  world.formed = now;
  std::map<std::string, std::uint32_t> role_sizes;
  for (const NodeKey& key : chosen) {
    const NodeReport& report = state.nodes.at(key).report;
    Member member;
    member.key = key;
    member.workers = report.workers;
    member.first_rank = world.size;
    member.role = report.role;
    member.role_first_rank = role_sizes[report.role];
    role_sizes[report.role] += report.workers;
    world.size += report.workers;
    world.places[key] = world.members.size();
    world.members.push_back(std::move(member));
  }
  for (Member& member : world.members) {
    member.role_size = role_sizes[member.role];
  }
  world.store = state.nodes.at(chosen.front()).report.store;
  return world;
}

Placement PlacementOf(const CoordinatorState& state, const World& world, std::size_t group_rank) {
  const Member& member = world.members.at(group_rank);
  Placement placement;
  placement.term = world.term;
  placement.generation = world.generation;
  placement.world_id = world.id;
  placement.group_rank = static_cast<std::uint32_t>(group_rank);
  placement.group_size = static_cast<std::uint32_t>(world.members.size());
  placement.first_rank = member.first_rank;
  placement.world_size = world.size;
  placement.role_first_rank = member.role_first_rank;
  placement.role_world_size = member.role_size;
  placement.store = world.store;
  placement.restarts_used = state.restarts_used;
  return placement;
}

}  // namespace ddprun
