#include "rendezvous/core/roster.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "rendezvous/core/bytes.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostOfCheck = 100;  // Of its words, beside other nodes' in one line.

bool IsOutsider(const Roster& roster, const NodeKey& key) {
  return FindMember(roster, key) == nullptr;
}

// The next moment at which time alone can change what is thought of the node.
std::optional<Time> DueTime(const Roster& roster, const CoordinatorConfig& config,
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
  if (node.unconnected && HasNewerMembership(roster, key)) {
    due = std::min<Time>(due, *node.unconnected + config.disconnect_grace);
  }
  return node.held ? std::min(due, node.held->until) : due;
}

Filed FactsOf(const Roster& roster, const CoordinatorConfig& config, const NodeKey& key,
              const NodeState& node) {
  Filed facts;
  facts.due = DueTime(roster, config, key, node);
  facts.forget = node.forget;
  if (!node.lost) {
    facts.cancelled = node.cancelled;
  }
  const bool able = IsReady(roster, key);
  facts.ready = able && !node.held;
  facts.held = able && node.held;
  facts.outsider = facts.ready && IsOutsider(roster, key);
  const bool stays =
      !node.lost && !node.refused && !node.acknowledged && node.report.leaving == Leaving::kNo;
  // Until it is gone: its leaving may end the run, and the others learn why.
  facts.cannot_start =
      CannotStart(node.report) && !node.lost && !node.refused && !node.acknowledged;
  facts.gives_up = facts.cannot_start && node.report.leaving != Leaving::kNo;
  facts.unfit = facts.cannot_start || (stays && IsUnfit(node.report));
  // The verdict on an outsider is not waited for: it would delay those that trained before.
  const bool outsider = facts.unfit && (!node.report.checking || IsOutsider(roster, key));
  facts.coming = !able && stays && !outsider && node.report.unkillable == 0;
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
  CountChange(index.cannot_start, before.cannot_start, facts.cannot_start);
  CountChange(index.gives_up, before.gives_up, facts.gives_up);
  if (before.unfit && !facts.unfit) {
    index.unfit.erase(key);
  } else if (facts.unfit) {
    index.unfit.insert(key);
  }
  index.bytes = index.bytes + facts.bytes - before.bytes;
}

void File(Roster& roster, const CoordinatorConfig& config, const NodeKey& key, NodeState& node) {
  const Filed facts = FactsOf(roster, config, key, node);
  Enter(roster.index, key, std::exchange(node.filed, facts), facts);
}

void Put(std::set<std::size_t>& set, std::size_t rank, bool in) {
  if (in) {
    set.insert(set.end(), rank);
  } else {
    set.erase(rank);
  }
}

void CallRoll(const Roster& roster, std::size_t rank, RollCall& roll) {
  const Member& member = roster.world->members[rank];
  Put(roll.silent, rank, !member.hosted && !member.lost);
  Put(roll.unfinished, rank, !member.succeeded);
  const auto node = roster.nodes.find(member.key);
  const bool undrained = !IsDrained(roster, member);
  Put(roll.undrained, rank, undrained);
  Put(roll.hurried, rank, undrained && !member.lost && !node->second.report.saving);
  Put(roll.lost, rank, member.lost);
  Put(roll.checking, rank,
      node != roster.nodes.end() && !node->second.lost && node->second.report.checking);
}

}  // namespace

bool IsThere(const NodeState& node) {
  return !node.lost && !node.refused && !node.acknowledged;
}

std::size_t StayingNodes(const Roster& roster) {
  return static_cast<std::size_t>(std::ranges::count_if(roster.nodes, [](const auto& entry) {
    return IsThere(entry.second) && entry.second.report.leaving == Leaving::kNo;
  }));
}

bool IsReady(const Roster& roster, const NodeKey& key) {
  const NodeState& node = roster.nodes.at(key);
  const NodeReport& report = node.report;
  // A node that knows an end, an earlier server's perhaps, is about to go.
  if (node.lost || node.refused || node.acknowledged || report.leaving != Leaving::kNo ||
      report.hosting != Hosting::kNothing || report.unkillable > 0 || IsUnfit(report)) {
    return false;
  }
  for (const auto& [name, other] : MembershipsOf(roster.nodes, key.node)) {
    // A node that knows its end and hosts nothing will not come back.
    const bool gone = other.acknowledged && other.report.hosting == Hosting::kNothing;
    if (!other.lost && !other.refused && !gone && other.joined < node.joined) {
      return false;
    }
  }
  return true;
}

bool HasNewerMembership(const Roster& roster, const NodeKey& key) {
  const auto joined = roster.nodes.at(key).joined;
  return std::ranges::any_of(MembershipsOf(roster.nodes, key.node), [&](const auto& other) {
    return !other.second.lost && !other.second.refused && other.second.joined > joined;
  });
}

bool IsDrained(const Roster& roster, const Member& member) {
  if (member.fence) {
    return false;
  }
  const auto found = roster.nodes.find(member.key);
  return member.lost || found == roster.nodes.end() ||
         (found->second.report.hosting == Hosting::kNothing &&
          found->second.report.unkillable == 0 &&
          found->second.report.floor >= roster.world->generation);
}

const Member* FindMember(const Roster& roster, const NodeKey& key) {
  const auto rank = roster.world ? RankOf(*roster.world, key) : std::nullopt;
  return rank ? &roster.world->members[*rank] : nullptr;
}

bool NeedsHeld(const Roster& roster) {
  return roster.spec && roster.index.ready < roster.spec->min_nodes;
}

std::uint32_t CountReady(const Roster& roster) {
  return roster.index.ready + (NeedsHeld(roster) ? roster.index.held : 0);
}

void Refile(Roster& roster, const CoordinatorConfig& config, const NodeId& node) {
  for (auto& [key, membership] : MembershipsOf(roster.nodes, node)) {
    File(roster, config, key, membership);
    if (roster.world) {
      if (const auto place = roster.world->places.find(key); place != roster.world->places.end()) {
        CallRoll(roster, place->second, roster.world->roll);
      }
    }
  }
}

void Forget(Roster& roster, const NodeKey& key) {
  const auto found = roster.nodes.find(key);
  Enter(roster.index, key, found->second.filed, Filed{});
  roster.nodes.erase(found);
  ++roster.edition;  // Its call may be parked.
  if (roster.world) {
    if (const auto place = roster.world->places.find(key); place != roster.world->places.end()) {
      CallRoll(roster, place->second, roster.world->roll);
    }
  }
}

void RefileAll(Roster& roster, const CoordinatorConfig& config) {
  for (auto& [key, node] : roster.nodes) {
    File(roster, config, key, node);
  }
  if (roster.world) {
    for (std::size_t rank = 0; rank < roster.world->members.size(); ++rank) {
      CallRoll(roster, rank, roster.world->roll);
    }
  }
}

std::vector<std::string> UnfitNodes(const Roster& roster) {
  std::vector<std::string> nodes;
  for (const NodeKey& key : roster.index.unfit) {
    if (nodes.size() == kMaxNamed) {
      break;
    }
    const NodeReport& report = roster.nodes.at(key).report;
    const std::string why = report.unfit.empty() ? "no verdict yet" : report.unfit;
    nodes.push_back(key.node + (CannotStart(report)
                                    ? " (cannot start its workers: " + why + ")"
                                    : " (node check: " + Shortened(why, kMostOfCheck) + ")"));
  }
  return nodes;
}

std::string UnfitInWords(const Roster& roster) {
  const std::vector<std::string> nodes = UnfitNodes(roster);
  return nodes.empty() ? "" : "; kept out: " + Joined(nodes, ", ");
}

std::size_t BytesOf(const NodeKey& key, const NodeState& node) {
  const NodeReport& report = node.report;
  std::size_t bytes = kTreeNode + sizeof(std::pair<NodeKey, NodeState>) + 2 * HeapOf(key.node);
  bytes += 2 * (kTreeNode + sizeof(NodeIndex::Agenda::value_type) + HeapOf(key.node));
  bytes += HeapOf(report.host) + HeapOf(report.role) + HeapOf(report.store.host) +
           HeapOf(report.addresses) + HeapOf(report.seen_at) + HeapOf(report.unfit) +
           HeapOf(report.page.host);
  if (IsUnfit(report)) {
    bytes += kTreeNode + sizeof(NodeKey) + HeapOf(key.node);
  }
  for (const ProgressGroup& group : report.progress_groups) {
    bytes += sizeof group + HeapOf(group.phase);
  }
  for (const HostFact& fact : report.facts) {
    bytes += sizeof fact + HeapOf(fact.name) + HeapOf(fact.value);
  }
  return bytes + (node.refused ? HeapOf(*node.refused) : 0);
}

}  // namespace ddprun
