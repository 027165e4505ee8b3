#include "rendezvous/core/directives.h"

#include <algorithm>
#include <set>

#include "common/exit_code.h"
#include "rendezvous/core/fencing.h"

namespace ddprun {
namespace {

Duration Until(Time deadline, Time now) {
  return std::max(Duration{0}, std::chrono::ceil<Duration>(deadline - now));
}

std::vector<std::string> Names(const World& world, const std::set<std::size_t>& ranks) {
  std::vector<std::string> names;
  for (const std::size_t rank : ranks) {
    if (names.size() == kMaxNamed) {
      break;
    }
    if (!world.members[rank].lost || world.members[rank].fence) {
      names.push_back(world.members[rank].key.node);
    }
  }
  return names;
}

bool IsHere(const CoordinatorState& state, const NodeId& node) {
  return std::ranges::any_of(MembershipsOf(state.nodes, node),
                             [](const auto& membership) { return !membership.second.lost; });
}

}  // namespace

WaitReason GatheringReason(const CoordinatorState& state, Time now) {
  WaitReason reason;
  reason.have = std::min(CountReady(state), state.spec->max_nodes);
  reason.need = state.spec->min_nodes;
  reason.want = state.spec->max_nodes;
  if (reason.have >= reason.need && ClaimIsInDoubt(state, now)) {
    reason.what = WaitFor::kClaim;
    return reason;
  }
  if (reason.have >= reason.need && state.budget.next_start && now < *state.budget.next_start) {
    reason.what = WaitFor::kBackoff;
    reason.losses = state.budget.fruitless;
    reason.remaining = Until(*state.budget.next_start, now);
    return reason;
  }
  if (state.last_call && reason.have >= reason.want && state.world &&
      !state.world->roll.checking.empty()) {
    reason.what = WaitFor::kCheck;
    reason.missing = Names(*state.world, state.world->roll.checking);
    reason.remaining = Until(*state.last_call, now);
    return reason;
  }
  // Also between a pause's end and the first event that acts on it: enough nodes are here.
  if (state.last_call || reason.have >= reason.need) {
    reason.what = WaitFor::kLastCall;
    reason.remaining = Until(state.last_call.value_or(now), now);
    reason.unfit = UnfitNodes(state);
    return reason;
  }
  reason.what = WaitFor::kNodes;
  reason.remaining = Until(EndOfGathering(state), now);
  reason.unfit = UnfitNodes(state);
  if (state.world) {
    for (const std::size_t rank : state.world->roll.lost) {
      const NodeId& node = state.world->members[rank].key.node;
      if (reason.missing.size() < kMaxNamed && !IsHere(state, node)) {
        reason.missing.push_back(node);
      }
    }
  }
  return reason;
}

namespace {

WaitReason RecoveringReason(const CoordinatorState& state, const CoordinatorConfig& config,
                            Time now) {
  WaitReason reason;
  reason.what = WaitFor::kRecovery;
  reason.need = state.spec->min_nodes;
  reason.have = static_cast<std::uint32_t>(state.recovery.places.size());
  reason.want = static_cast<std::uint32_t>(NodesToRecover(state));
  if (reason.want == 0) {  // No world is known: the nodes that are here matter.
    reason.want = state.spec->max_nodes;
    reason.have = std::min(static_cast<std::uint32_t>(state.nodes.size()), reason.want);
  }
  reason.remaining = Until(EndOfRecovery(state, config), now);
  return reason;
}

// Of a node that no world may have, whatever the phase.
WaitReason UnfitReason(const CoordinatorState& state, const NodeReport& report) {
  WaitReason reason;
  reason.what = report.unfit.empty() ? WaitFor::kCheck : WaitFor::kUnfit;
  reason.need = state.spec->min_nodes;
  reason.want = state.spec->max_nodes;
  if (!report.unfit.empty()) {
    reason.unfit.push_back(report.unfit);
  }
  return reason;
}

WaitReason ReasonFor(const CoordinatorState& state, const NodeKey& key, bool member, Time now) {
  const auto found = state.nodes.find(key);
  if (found == state.nodes.end() || !state.spec) {
    return {};
  }
  const bool cannot_start = CannotStart(found->second.report);  // It waits as the others do.
  if (IsUnfit(found->second.report) && !cannot_start) {
    return UnfitReason(state, found->second.report);
  }
  if (state.phase == Phase::kGathering) {
    WaitReason reason = GatheringReason(state, now);
    if (!IsReady(state, key) && !cannot_start) {
      reason.what = WaitFor::kEarlierSelf;
    } else if (found->second.held && !NeedsHeld(state)) {
      ExplainHold(*found->second.held, now, reason);
    }
    return reason;
  }
  if (state.phase == Phase::kRunning && !member && IsReady(state, key)) {
    return WhyOutside(state.growth, state, key, now);
  }
  WaitReason reason;
  reason.have = static_cast<std::uint32_t>(state.world->members.size());
  reason.need = state.spec->min_nodes;
  reason.want = state.spec->max_nodes;
  if (state.phase == Phase::kDraining) {
    reason.what = WaitFor::kDrain;
    reason.missing = Names(*state.world, state.world->roll.undrained);
  } else if (member) {
    reason.what = WaitFor::kPeers;
    reason.missing = Names(*state.world, state.world->roll.unfinished);
  } else {
    reason.what = WaitFor::kEarlierSelf;
  }
  return reason;
}

Finish FinishFor(const CoordinatorState& state, const CoordinatorConfig& config,
                 const NodeState& node) {
  // Without a term it never heard of this run before it ended: it must not believe that its own
  // work has succeeded. Alone there is no other's work. Its first report may be why the run ended.
  const bool was_here =
      node.joined <= state.joins_before_end && state.outcome->ending != Ending::kSucceeded;
  if (node.report.term == Term{0} && !config.alone && !was_here) {
    return {Ending::kEnded,
            kExitUnavailable,
            "this run ended before this node joined (run id '" + state.run_id +
                "'). Use another --rdzv-id, or the same one " +
                FormatDuration(RememberedFor(state, config)) +
                " after its last node has ended [run-ended]",
            {}};
  }
  return *state.outcome;
}

}  // namespace

Directive DirectiveFor(const CoordinatorState& state, const CoordinatorConfig& config,
                       const NodeId& node_id, Incarnation incarnation, Time now) {
  const NodeKey key{node_id, incarnation};
  const auto found = state.nodes.find(key);
  if (found == state.nodes.end()) {
    return state.spec ? Wait{{.what = WaitFor::kRoom,
                              .need = state.spec->min_nodes,
                              .want = state.spec->max_nodes}}
                      : Wait{};
  }
  const NodeState& node = found->second;
  const NodeReport& report = node.report;
  const bool knows_the_end = report.echo && std::holds_alternative<Finish>(*report.echo);
  if (knows_the_end && report.hosting == Hosting::kNothing) {
    return Wait{{.what = WaitFor::kPeers}};  // News, so it is answered at once and lets it go.
  }
  if (node.refused) {
    return Finish{Ending::kRefused, kExitUsage, *node.refused, {}};
  }
  if (state.outcome) {
    if (!MayTellOutcome(state, config)) {
      return Wait{{.what = WaitFor::kOutcomeKept,
                   .need = state.spec->min_nodes,
                   .want = state.spec->max_nodes}};
    }
    return FinishFor(state, config, node);
  }
  const Generation hosted = report.placement ? report.placement->generation : Generation{};
  if (node.lost) {
    return Stop{std::max(report.floor, hosted), {}, StopCause::kDeclaredLost};
  }
  if (state.phase == Phase::kRecovering) {
    return Wait{RecoveringReason(state, config, now)};
  }
  // While nodes are missing it stays, so that those that wait for them hear of it.
  const bool may_go = state.phase == Phase::kRunning || report.leaving != Leaving::kNo;
  if (CannotStart(report) && may_go) {
    return Finish{Ending::kRefused,
                  kExitUsage,
                  "cannot start the workers: " + report.unfit + " [cannot-start]",
                  {}};
  }
  const Member* const member = FindMember(state, key);
  const bool hosts = report.hosting != Hosting::kNothing;
  const bool current = state.world && SpeaksOfWorld(report, *state.world);
  if (hosts && !(current && member != nullptr && IsActive(state))) {
    return Stop{hosted, report.placement->world_id, StopCause::kSuperseded};
  }
  if (state.phase == Phase::kDraining && member != nullptr &&
      (hosts || report.floor < state.world->generation)) {
    return Stop{state.world->generation, state.world->id, state.drain->cause,
                state.drain->interrupts};
  }
  if (report.leaving == Leaving::kLeave && (member == nullptr || !hosts)) {
    const bool bound = state.phase == Phase::kRunning && member != nullptr && !member->succeeded;
    if (!bound) {
      return Finish{Ending::kLeft, kExitTerminated, "this node left the run on request", {}};
    }
  }
  if (state.phase == Phase::kRunning && member != nullptr && !member->succeeded) {
    return Run{PlacementOf(*state.world, *RankOf(*state.world, key), state.budget.used)};
  }
  return Wait{ReasonFor(state, key, member != nullptr, now)};
}

std::optional<Time> NextWake(const CoordinatorState& state, const CoordinatorConfig& config) {
  std::optional<Time> wake;
  const auto consider = [&](Time when) { wake = wake ? std::min(*wake, when) : when; };
  if (!state.index.due.empty()) {
    consider(state.index.due.begin()->first);
  }
  switch (state.phase) {
    case Phase::kRecovering:
      consider(EndOfRecovery(state, config));
      break;
    case Phase::kGathering:
      if (state.spec) {
        consider(EndOfGathering(state));
      }
      if (state.budget.next_start && *state.budget.next_start > state.stepped) {
        consider(*state.budget.next_start);
      }
      if (state.last_call && !ClaimIsInDoubt(state, state.stepped)) {
        consider(*state.last_call);
      }
      break;
    case Phase::kRunning:
      if (!state.world->roll.silent.empty()) {
        consider(state.since + config.start_timeout);
      }
      if (state.growth.go) {
        consider(*state.growth.go);
      }
      break;
    case Phase::kDraining: {
      const RollCall& roll = state.world->roll;
      if (!std::includes(roll.lost.begin(), roll.lost.end(), roll.undrained.begin(),
                         roll.undrained.end())) {
        consider(EndOfDrain(state, config, roll.hurried.empty()));
      }
      if (const std::optional<Time> fence = NextFence(state)) {
        consider(*fence);
      }
      break;
    }
    case Phase::kSucceeded:
    case Phase::kFailed:
      break;
  }
  return wake;
}

}  // namespace ddprun
