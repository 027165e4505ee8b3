#include "rendezvous/core/formation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "common/text.h"

namespace ddprun {
namespace {

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

using Candidate = std::map<NodeKey, NodeState>::value_type;

bool ComesBefore(const Candidate* a, const Candidate* b) {
  const NodeReport& left = a->second.report;
  const NodeReport& right = b->second.report;
  constexpr auto kNoRank = static_cast<std::uint32_t>(-1);
  const std::uint32_t left_rank = left.node_rank.value_or(kNoRank);
  const std::uint32_t right_rank = right.node_rank.value_or(kNoRank);
  if (left_rank != right_rank) {
    return left_rank < right_rank;
  }
  if (const auto order = CompareNatural(left.node, right.node); order != 0) {
    return order < 0;
  }
  return a->second.joined < b->second.joined;
}

// Sorted ones. Nodes without a rank take the places that the ranks of the others leave free.
std::vector<NodeKey> InPlaces(const std::vector<const Candidate*>& sorted) {
  const auto rank = [](const Candidate* candidate) { return candidate->second.report.node_rank; };
  const auto end_of_ranked =
      std::find_if(sorted.begin(), sorted.end(), [&](const Candidate* c) { return !rank(c); });
  std::vector<NodeKey> keys;
  auto ranked = sorted.begin();
  auto unranked = end_of_ranked;
  while (keys.size() < sorted.size()) {
    const bool free =
        ranked == end_of_ranked || (unranked != sorted.end() && *rank(*ranked) > keys.size());
    auto& next = free ? unranked : ranked;
    keys.push_back((*next++)->first);
  }
  return keys;
}

// Keeps max_nodes: those of the last world first, then those that came first.
void LeaveOut(const Roster& roster, std::vector<const Candidate*>& chosen) {
  std::set<NodeId> last_world;
  if (roster.world) {
    for (const Member& member : roster.world->members) {
      last_world.insert(member.key.node);
    }
  }
  std::sort(chosen.begin(), chosen.end(), [&](const Candidate* a, const Candidate* b) {
    const bool a_old = last_world.contains(a->first.node);
    const bool b_old = last_world.contains(b->first.node);
    return a_old != b_old ? a_old : a->second.joined < b->second.joined;
  });
  chosen.resize(roster.spec->max_nodes);
}

// SplitMix64 (Steele, Lea, Flood 2014): distinct seeds and counters give distinct-looking ids.
std::uint64_t Mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// Never the same twice, not for another run either: all runs of a server draw from its one seed,
// and files and memory that workers share or leave behind have this name.
WorldId NameOf(Generation generation, const RunId& run_id, const CoordinatorConfig& config) {
  std::uint64_t name = config.seed;
  for (const char c : run_id) {
    name = Mix(name ^ static_cast<unsigned char>(c));
  }
  return {Mix(name ^ Mix(generation.value))};
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

std::vector<NodeKey> ChooseMembers(const Roster& roster) {
  const bool with_held = NeedsHeld(roster);
  std::vector<const Candidate*> chosen;
  for (const Candidate& candidate : roster.nodes) {
    if ((with_held || !candidate.second.held) && IsReady(roster, candidate.first)) {
      chosen.push_back(&candidate);
    }
  }
  if (chosen.size() > roster.spec->max_nodes) {
    LeaveOut(roster, chosen);
  }
  std::sort(chosen.begin(), chosen.end(), ComesBefore);
  const bool explicit_ranks = std::any_of(
      chosen.begin(), chosen.end(),
      [](const Candidate* candidate) { return candidate->second.report.node_rank.has_value(); });
  const std::vector<NodeKey> keys = InPlaces(chosen);
  return roster.world && !explicit_ranks ? KeepPlaces(*roster.world, keys) : keys;
}

World MakeWorld(const Roster& roster, const CoordinatorConfig& config, Generation newest,
                const std::vector<NodeKey>& chosen, Time now) {
  World world;
  world.term = config.term;
  world.generation = newest.Next();
  world.id = NameOf(world.generation, roster.run_id, config);
  world.formed = now;
  std::map<std::string, std::uint32_t> role_sizes;
  for (const NodeKey& key : chosen) {
    const NodeReport& report = roster.nodes.at(key).report;
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
  world.store = roster.nodes.at(chosen.front()).report.store;
  return world;
}

}  // namespace ddprun
