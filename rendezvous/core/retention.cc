#include "rendezvous/core/retention.h"

#include <vector>

#include "rendezvous/core/bytes.h"

namespace ddprun {
namespace {

// The part of an echo that matters once its report has arrived: how a world was stopped, and that
// an end is known.
std::optional<Directive> EchoToKeep(const std::optional<Directive>& echo) {
  const bool matters =
      echo && (std::holds_alternative<Stop>(*echo) || std::holds_alternative<Finish>(*echo));
  return matters ? std::optional(WithoutWords(*echo)) : std::nullopt;
}

bool IsInWorld(const Roster& roster, const NodeKey& key) {
  return roster.world && roster.world->places.contains(key);
}

// Nodes that were lost in no world: they get that answer anyway.
void ForgetLost(Roster& roster, const std::vector<NodeKey>& keys) {
  for (const NodeKey& key : keys) {
    if (roster.nodes.at(key).lost && !IsInWorld(roster, key)) {
      Forget(roster, key);
    }
  }
}

std::vector<NodeKey> KeysOf(const Roster& roster, const NodeId& node) {
  std::vector<NodeKey> keys;
  for (const auto& [key, membership] : MembershipsOf(roster.nodes, node)) {
    keys.push_back(key);
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
  Drop(kept.events);
  Drop(kept.spawn_failure);
  if (kept.placement) {
    Drop(kept.placement->store.host);
  }
  if (!in_world) {
    Drop(kept.progress_groups);
    kept.hung_rank.reset();  // Its peers are asked once it can be compared with them.
  }
  return kept;
}

NodeReport ToKeepOfPlace(const NodeReport& report) {
  NodeReport kept = ToKeep(report, false);
  Drop(kept.addresses);
  Drop(kept.page.host);
  kept.failures = report.failures;
  for (WorkerFailure& failure : kept.failures) {
    DropTexts(failure);
  }
  return kept;
}

bool KeepsEvents(const Roster& roster, const NodeKey& key) {
  if (!roster.world) {
    return false;
  }
  const auto place = roster.world->places.find(key);
  return place != roster.world->places.end() && place->second < kEventKeepers;
}

bool MakeRoomFor(Roster& roster, const NodeKey& key, std::size_t room, bool recovering) {
  if (!recovering && KeysOf(roster, key.node).size() >= kMostMemberships) {
    ForgetLost(roster, KeysOf(roster, key.node));
  }
  const auto fits = [&] { return roster.index.bytes + kMostOutside <= room; };
  if (!recovering && !fits()) {  // All at once: each makes the driver look at every call.
    std::vector<NodeKey> lost;
    for (const auto& [when, other] : roster.index.forget) {
      lost.push_back(other);
    }
    ForgetLost(roster, lost);
  }
  return fits() && KeysOf(roster, key.node).size() < kMostMemberships;
}

}  // namespace ddprun
