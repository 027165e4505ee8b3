#include "rendezvous/core/status.h"

#include <algorithm>

#include "rendezvous/core/directives.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

const Member* MemberOf(const CoordinatorState& state, const NodeKey& key) {
  if (!state.world) {
    return nullptr;
  }
  const auto place = state.world->places.find(key);
  return place == state.world->places.end() ? nullptr : &state.world->members[place->second];
}

std::string StateOf(const CoordinatorState& state, const NodeKey& key, const NodeState& node,
                    const Member* member) {
  if (node.acknowledged) {
    return "gone";
  }
  if (node.lost) {
    return "lost";
  }
  if (node.refused) {
    return "refused";
  }
  if (IsActive(state) && member != nullptr && member->succeeded) {
    return "finished";
  }
  if (node.report.unkillable > 0) {
    return "unkillable";
  }
  if (node.report.hosting == Hosting::kStopping) {
    return "stopping";
  }
  if (node.report.leaving != Leaving::kNo) {
    return "leaving";
  }
  if (IsUnfit(node.report)) {
    return node.report.unfit.empty() ? "checking" : "unfit";
  }
  if (node.report.hosting == Hosting::kWorkers) {
    return node.report.starting ? "starting" : "running";
  }
  if (state.phase == Phase::kRunning && member != nullptr) {
    return "starting";
  }
  if (!IsReady(state, key)) {
    return "waiting";
  }
  return state.phase == Phase::kRunning ? "spare" : "ready";
}

std::string SourceOf(const ProgressGroup& group) {
  switch (group.source) {
    case ProgressSource::kTold:
      break;
    case ProgressSource::kPrinted:
      return "printed";
    case ProgressSource::kCollectives:
      return "collectives";
  }
  return "";
}

// As a name, which no node makes longer than one may be.
std::string PageOf(const Endpoint& page) {
  const std::string text = page.port == 0 ? "" : ToString(page);
  return text.size() > kMaxNameBytes ? "" : text;
}

NodeStatus Look(const CoordinatorState& state, const NodeKey& key, const NodeState& node,
                Time now) {
  const Member* const member = MemberOf(state, key);
  NodeStatus status;
  status.node = key.node;
  status.host = node.report.host;
  status.incarnation = key.incarnation;
  status.state = StateOf(state, key, node, member);
  status.last_seen = std::chrono::floor<Duration>(std::max(now, node.heard) - node.heard);
  status.workers = node.report.workers;
  status.reason = node.refused.value_or(node.report.unfit);
  status.facts = node.report.facts;
  status.page = PageOf(node.report.page);
  status.in_world = member != nullptr && !member->lost;
  status.first_rank = status.in_world ? member->first_rank : 0;
  for (const ProgressGroup& group : node.report.progress_groups) {
    status.late += group.late;
  }
  if (!node.report.progress_groups.empty()) {
    status.step = node.report.progress_groups.front().step;
    status.step_source = SourceOf(node.report.progress_groups.front());
    status.phase = node.report.progress_groups.front().phase;
  }
  return status;
}

// Members that are not yet (or still) where the phase wants them.
std::string NamesOf(const CoordinatorState& state,
                    bool (*wanted)(const Member&, const NodeState&)) {
  std::string names;
  std::size_t count = 0;
  for (const Member& member : state.world->members) {
    const auto node = state.nodes.find(member.key);
    if (!member.lost && node != state.nodes.end() && wanted(member, node->second) &&
        count++ < kMaxNamed) {
      names += (names.empty() ? "" : " ") + member.key.node;
    }
  }
  return names + (count > kMaxNamed ? " ..." : "");
}

std::string WaitsFor(const CoordinatorState& state, const CoordinatorConfig& config, Time now) {
  switch (state.phase) {
    case Phase::kRecovering:
    case Phase::kGathering: {
      for (const auto& [key, node] : state.nodes) {
        const Directive told = DirectiveFor(state, config, key.node, key.incarnation, now);
        const Wait* const wait = std::get_if<Wait>(&told);
        if (wait != nullptr && !node.lost && !IsUnfit(node.report)) {
          return Describe(wait->reason);
        }
      }
      const bool all_unfit = state.phase == Phase::kGathering && state.spec;
      return all_unfit ? Describe(GatheringReason(state, now)) : "waiting for a first node";
    }
    case Phase::kDraining:
      return "stopping generation " + std::to_string(state.world->generation.value) + " (" +
             Describe(state.drain->cause) + "): waiting for " +
             NamesOf(state, [](const Member&, const NodeState& node) {
               return node.report.hosting != Hosting::kNothing;
             });
    case Phase::kRunning: {
      const std::string starting =
          NamesOf(state, [](const Member& m, const NodeState&) { return !m.hosted; });
      if (!starting.empty()) {
        return "waiting until the workers are started on " + starting;
      }
      const std::string held =
          NamesOf(state, [](const Member&, const NodeState& node) { return node.report.starting; });
      if (!held.empty()) {
        return "waiting until the workers are started on " + held +
               ", which takes longer than usual (see its log: is a file system slow?)";
      }
      const bool some = std::any_of(state.world->members.begin(), state.world->members.end(),
                                    [](const Member& m) { return m.succeeded; });
      return some ? "some nodes' workers have finished; waiting for those of " +
                        NamesOf(state,
                                [](const Member& m, const NodeState&) { return !m.succeeded; })
                  : "";
    }
    case Phase::kSucceeded:
    case Phase::kFailed:
      return "";
  }
  return "";
}

// Nodes may be of several jobs: the first end is what all of them meet.
void AddJob(const NodeReport& report, RunStatus& status) {
  status.requeues = std::max(status.requeues, report.requeues);
  const bool first = status.job_ends_unix == 0 || report.job_ends_unix < status.job_ends_unix;
  if (report.job_ends_unix != 0 && first) {
    status.job_ends_unix = report.job_ends_unix;
  }
}

}  // namespace

RunStatus StatusOf(const CoordinatorState& state, const CoordinatorConfig& config, Time now) {
  RunStatus status;
  status.run_id = state.run_id;
  status.phase = Describe(state.phase);
  status.phase_since = std::chrono::floor<Duration>(std::max(now, state.since) - state.since);
  if (state.spec) {
    status.min_nodes = state.spec->min_nodes;
    status.max_nodes = state.spec->max_nodes;
    status.max_restarts = state.spec->max_restarts;
  }
  status.restarts_used = state.budget.used;
  if (state.world) {
    status.generation = state.world->generation;
    status.group_size = static_cast<std::uint32_t>(state.world->members.size());
    status.world_size = state.world->size;
  }
  status.waits_for = WaitsFor(state, config, now);
  if (state.outcome) {
    status.outcome = state.outcome->text;
    status.exit_code = state.outcome->exit_code;
  }
  status.startups = StartupsAt(state.startups, now);
  for (const auto& [key, node] : state.nodes) {
    const NodeId& name = key.node;
    const bool returned = node.lost && std::ranges::any_of(state.nodes, [&](const auto& other) {
                            return other.first.node == name && !other.second.lost;
                          });
    if (!returned) {
      status.nodes.push_back(Look(state, key, node, now));
    }
    if (!node.lost) {
      AddJob(node.report, status);
    }
  }
  std::stable_sort(status.nodes.begin(), status.nodes.end(), [](const auto& a, const auto& b) {
    return a.in_world != b.in_world ? a.in_world : a.in_world && a.first_rank < b.first_rank;
  });
  if (status.nodes.size() > kMaxListedNodes) {
    status.more_nodes = static_cast<std::uint32_t>(status.nodes.size() - kMaxListedNodes);
    status.nodes.resize(kMaxListedNodes);
  }
  return status;
}

}  // namespace ddprun
