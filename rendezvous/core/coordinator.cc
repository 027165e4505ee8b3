#include "rendezvous/core/coordinator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/exit_code.h"
#include "common/overload.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/retention.h"
#include "rendezvous/core/transitions.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

// A tick that is later than this came late because this server was paused.
constexpr auto kLate = 100ms;

void Refuse(CoordinatorStepContext& step, const NodeId& name, NodeState& node,
            std::optional<std::string> why) {
  node.refused = std::move(why);
  if (node.refused) {
    RunEvent& event = step.Say(kEventRefused, NoticeLevel::kWarning,
                               "refused node " + name + ": " + *node.refused);
    event.node = name;
    event.reason = "a node was refused";
  }
}

// ---- A server that is new to the run ----
void BeginRecovery(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  state.recovery.entered = true;
  state.budget.may_excuse = true;  // This server does not know how the last world ended.
  state.drain.reset();
  state.last_call.reset();
  ChangeAll(state, step.config, [](Roster& roster) { roster.world.reset(); });
  step.Enter(Phase::kRecovering);
  step.Say(kEventServer, NoticeLevel::kInfo,
           "run '" + state.run_id +
               "' is known to its nodes from another server: collecting their reports, "
               "workers continue");
}

// Acts on every report once more, now that it is known whether there is a world.
void ActOnAllReports(CoordinatorStepContext& step,
                     const std::map<std::uint32_t, Recovery::Place>& places) {
  std::map<NodeKey, const NodeReport*> fuller;  // Reports that have their failures.
  for (const auto& [rank, place] : places) {
    fuller[place.key] = &place.report;
  }
  std::vector<NodeKey> keys;
  ChangeAll(step.state, step.config, [&](Roster& all) {
    for (auto& [key, node] : all.nodes) {
      if (!node.lost && !node.refused && FindMember(all, key) == nullptr) {
        Refuse(step, key.node, node, WhyRefused(all, node.report));
      }
      if (!node.lost && !node.refused) {
        keys.push_back(key);
      }
    }
  });
  for (const NodeKey& key : keys) {
    if (HasEnded(step.state)) {
      return;
    }
    const NodeReport& newest = step.state.nodes.at(key).report;
    const auto place = fuller.find(key);
    const bool same = place != fuller.end() && place->second->sequence == newest.sequence;
    ActOnReport(step, key, same ? *place->second : newest);
  }
  JudgeIfDrained(step);
  TryForm(step);
}

void EndRecovery(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  const Time began = state.since + LeaseOfRecovery(state, step.config);
  std::optional<Recovered> found = Conclude(state.recovery, state, began, step.now);
  if (!found) {
    step.Enter(Phase::kGathering);
    step.Say(kEventServer, NoticeLevel::kInfo,
             "no node of run '" + state.run_id + "' has workers: continuing");
    ActOnAllReports(step, {});
    return;
  }
  ChangeAll(state, step.config, [&](Roster& roster) { roster.world = std::move(found->world); });
  const std::string what = Describe(*state.world);
  if (found->goes_on) {
    step.Enter(Phase::kRunning);
    step.Say(kEventServer, NoticeLevel::kInfo, "recovered " + what + "; no worker was disturbed");
  } else {
    step.Say(kEventServer, NoticeLevel::kInfo,
             "recovered " + what + ", which cannot continue as it is");
    BeginDrain(step, found->cause, true);
    state.drain->perhaps_stale = found->perhaps_stale;
  }
  ActOnAllReports(step, TakePlaces(state.recovery));
}

bool IsForRecovery(const CoordinatorStepContext& step, const NodeReport& report) {
  const CoordinatorState& state = step.state;
  return state.phase == Phase::kRecovering ||
         (state.worlds_formed == 0 && CallsForRecovery(state.recovery, report, step.config.term));
}

void PrepareRecovery(CoordinatorStepContext& step, const NodeReport& report) {
  CoordinatorState& state = step.state;
  if (state.phase != Phase::kRecovering) {
    BeginRecovery(step);
  }
  // An earlier server took the nodes of that world in, so their options are the run's.
  if (IsNews(state.recovery, report) && report.spec != *state.spec) {
    ChangeAll(state, step.config, [&](Roster& all) { all.spec = report.spec; });
  }
}

// ---- Reports ----
// Notes how late a member's report is. `unconnected` is the time at which its last call was
// answered.
void NoteTurnaround(CoordinatorStepContext& step, const NodeKey& key, const NodeState& node) {
  const bool counts = node.member_lost || FindMember(step.state, key) != nullptr;
  if (counts && !node.call_open && node.unconnected) {
    ObserveLate(step.state.lateness, step.now - *node.unconnected, kTurnaroundsPerLease,
                step.config.long_lease, step.now);
  }
}

void Arrive(CoordinatorStepContext& step, NodeState& node, const NodeReport& report) {
  NoteTurnaround(step, {report.node, report.incarnation}, node);
  if (!node.refused && !node.lost) {
    NoteFitness(step, node.report, report);
    NoteFacts(step, node.report, report);
  }
  const Duration lease = LeaseOf(step.state, step.config);
  if (node.report.sequence == 0) {
    node.expires = step.now + lease;  // First contact.
  } else if (report.term == step.config.term) {
    const Time beat{std::chrono::microseconds(std::max<std::int64_t>(0, report.beat))};
    node.expires = std::max(node.expires, std::min(step.now, beat) + lease);
  }
  if (node.forget) {  // This membership is lost, but its node still has to learn that.
    node.forget = std::max(*node.forget, step.now + RememberedFor(step.state, step.config));
  }
  node.report =
      ToKeep(report, FindMember(step.state, {report.node, report.incarnation}) != nullptr);
  node.heard = step.now;
  if (node.asked_to_leave) {
    node.report.leaving = std::max(node.report.leaving, Leaving::kLeave);
  }
  node.waited |= report.leaving == Leaving::kNo;
  node.call_open = true;
  node.unconnected.reset();
  node.cancelled.reset();
  node.lease_decides = false;
  node.acknowledged |= report.echo && std::holds_alternative<Finish>(*report.echo);
}

// False: nothing more is done with the report.
bool TakeIn(CoordinatorStepContext& step, const NodeKey& key, const NodeReport& report) {
  CoordinatorState& state = step.state;
  const std::optional<std::string> malformed = WhyMalformed(report);
  if (!state.spec && !malformed) {
    state.spec = report.spec;
    state.since = step.now;
  }
  const bool known = state.nodes.contains(key);
  const std::size_t beside = std::min(BytesOf(state) - state.index.bytes, step.config.run_bytes);
  if (!known &&
      !MakeRoomFor(state, key, step.config.run_bytes - beside, state.phase == Phase::kRecovering)) {
    return false;
  }
  Change(state, step.config, key, [&](NodeState& node) {
    if (!known) {
      node.joined = ++state.joins;
      node.held = HoldBack(state.growth, key.node, step.now);
    }
    if (!node.refused && (malformed || !known)) {
      // The run's options are known when recovery ends.
      const bool may_differ = malformed || IsForRecovery(step, report);
      Refuse(step, key.node, node, may_differ ? malformed : WhyRefused(state, report));
    }
    Arrive(step, node, report);
  });
  return !state.nodes.at(key).refused;
}

void OnReport(CoordinatorStepContext& step, const NodeReport& report) {
  CoordinatorState& state = step.state;
  const NodeKey key{report.node, report.incarnation};
  step.from = report.node;
  if (!IsNewest(state, report) || !TakeIn(step, key, report)) {
    return;
  }
  state.newest = std::max(state.newest, report.floor);
  if (report.placement) {
    state.newest = std::max(state.newest, report.placement->generation);
  }
  if (HasEnded(state)) {
    return;
  }
  FenceAnew(state, step.config, report, step.now);
  if (state.nodes.at(key).lost) {
    TakeLateSuccess(step, key, report);  // First: the end of its fence may form the next world.
  }
  if (!HasEnded(state) && EndFenceOf(state, step.config, report)) {
    JudgeIfDrained(step);
  }
  if (state.nodes.at(key).lost || HasEnded(state)) {
    return;
  }
  const bool is_for_recovery = IsForRecovery(step, report);
  if (is_for_recovery) {
    PrepareRecovery(step, report);
  }
  if (!state.world) {
    const bool windowed = state.spec->restart_window > Duration{0};  // More may have been used.
    state.budget.used = std::max(
        state.budget.used,
        windowed ? report.restarts_used : std::min(report.restarts_used, state.spec->max_restarts));
  }
  if (!is_for_recovery) {
    ActOnReport(step, key, report);
  } else if (Collect(state.recovery, state, key, report, step.config.run_bytes)) {
    EndRecovery(step);
  }
}

// ---- Time ----
// Whether several connections closed at once. Then this host or a proxy is the likely cause, so the
// lease decides and not the grace.
bool ClosedWithOthers(const CoordinatorState& state, const CoordinatorConfig& config, Time when) {
  const auto& closed = state.index.cancelled;
  const auto first = closed.lower_bound(when - config.disconnect_grace);
  return first != closed.end() && std::next(first) != closed.end() &&
         *std::next(first) <= when + config.disconnect_grace;
}

// Why a node is lost: its lease is over, its connection closed, or a successor has its place.
std::optional<std::string> WhyLost(const CoordinatorStepContext& step, const NodeKey& key,
                                   NodeState& node) {
  const Duration grace = step.config.disconnect_grace;
  if (step.now >= node.expires) {
    return "nothing heard for its lease of " + FormatDuration(LeaseOf(step.state, step.config));
  }
  if (node.cancelled && !node.lease_decides && step.now >= *node.cancelled + grace) {
    if (!ClosedWithOthers(step.state, step.config, *node.cancelled)) {
      return "its connection closed and it did not come back within " + FormatDuration(grace);
    }
    node.lease_decides = true;
  }
  if (node.unconnected && step.now >= *node.unconnected + grace &&
      HasNewerMembership(step.state, key)) {
    return "a new agent of the same node has taken its place";
  }
  return std::nullopt;
}

void ExpireNodes(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  std::vector<NodeKey> due;
  for (const auto& [when, key] : state.index.due) {
    if (when > step.now) {
      break;
    }
    due.push_back(key);
  }
  std::vector<std::pair<NodeKey, std::string>> lost;
  for (const NodeKey& key : due) {
    bool left = false;
    Change(state, step.config, key, [&](NodeState& node) {
      if (node.held && step.now >= node.held->until) {
        node.held.reset();
      }
      if (node.acknowledged && step.now >= node.expires) {
        node.lost = left = true;  // It knows the outcome and has ended, as expected.
        node.forget = node.expires + RememberedFor(state, step.config);
      } else if (auto why = node.acknowledged ? std::nullopt : WhyLost(step, key, node)) {
        lost.emplace_back(key, *std::move(why));
      }
    });
    if (left) {
      LeavePlace(state.recovery, key);
      ChangeMember(state, step.config, key, [](Member& member) {
        member.lost = true;  // The drain does not wait for it.
      });
    }
  }
  for (const auto& [key, why] : lost) {
    Lose(step, key, why);
  }
  if (state.phase == Phase::kRecovering) {
    return;  // Lost nodes are kept: the end of their fences follows from when they were last heard.
  }
  auto& forget = state.index.forget;
  while (!forget.empty() && forget.begin()->first <= step.now) {
    Forget(state, NodeKey(forget.begin()->second));
  }
}

void ExpirePhase(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  if (state.phase == Phase::kRecovering && step.now >= EndOfRecovery(state, step.config)) {
    EndRecovery(step);
  }
  if (state.phase == Phase::kRunning) {
    if (step.now >= state.since + step.config.start_timeout) {
      for (const std::size_t rank : std::set<std::size_t>(state.world->roll.silent)) {
        Lose(step, state.world->members[rank].key, "it has not started its workers in time");
      }
    }
  }
  if (state.phase == Phase::kDraining) {
    if (step.now >= EndOfDrain(state, step.config, false)) {
      const bool late = step.now >= EndOfDrain(state, step.config, true);
      const RollCall& roll = state.world->roll;
      for (const std::size_t rank : std::set<std::size_t>(late ? roll.undrained : roll.hurried)) {
        if (const Member& member = state.world->members[rank]; !member.lost) {
          Lose(step, NodeKey(member.key), "its workers cannot be stopped");
        }
      }
    }
    EndFences(state, step.config, step.now);
  }
  GoOn(step);
  if (state.phase == Phase::kGathering && state.spec && step.now >= EndOfGathering(state)) {
    const std::uint32_t have = CountReady(state);
    EndRun(step, Finish{Ending::kFailed,
                        kExitUnavailable,
                        std::to_string(have) + " of " + std::to_string(state.spec->min_nodes) +
                            " nodes came within " + FormatDuration(state.spec->join_timeout) +
                            " (join_timeout)" + UnfitInWords(state) + " [too-few-nodes]",
                        {}});
  }
}

// A tick that comes late (this server was paused) extends leases, graces and the deadlines of
// stopping and starting by the lateness: the nodes' reports may be waiting in the sockets. One
// grace is added, so that nothing is due at once after the wake-up.
void ForgiveOwnPause(CoordinatorState& state, const CoordinatorConfig& config, Time now) {
  // Once per pause: the wake-up stays due until a tick, and messages may be fed before it.
  const Time awake = std::max(state.wake.value_or(now), state.stepped);
  if (now <= awake + kLate) {
    return;
  }
  ObserveLate(state.lateness, now - awake, kStandstillsPerLease, config.long_lease, now);
  const auto late = now - awake + config.disconnect_grace;
  if (state.drain) {
    state.drain->began += late;
  }
  if (state.phase == Phase::kRunning || state.phase == Phase::kRecovering) {
    state.since += late;  // The deadlines of starting and of recovery count from it.
  }
  ChangeAll(state, config, [&](Roster& roster) {
    for (auto& [key, node] : roster.nodes) {
      node.expires += late;
      if (node.cancelled) {
        *node.cancelled += late;
      }
      if (node.unconnected) {
        *node.unconnected += late;
      }
    }
  });
}

void OnCallEnded(CoordinatorStepContext& step, const CallEnded& ended) {
  const auto found = step.state.nodes.find({ended.node, ended.incarnation});
  if (found == step.state.nodes.end() || found->second.report.sequence != ended.sequence) {
    return;  // An older call has ended; the newer one decides.
  }
  Change(step.state, step.config, NodeKey(found->first), [&](NodeState& node) {
    node.call_open = false;
    node.unconnected = step.now;
    if (ended.cancelled) {
      node.cancelled = step.now;
    }
  });
}

}  // namespace

CoordinatorEffects Step(CoordinatorState& state, const CoordinatorConfig& config,
                        const CoordinatorEvent& event, Time now) {
  CoordinatorStepContext step{state, config, now, {}, {}};
  const bool had_ended = HasEnded(state);
  ForgiveOwnPause(state, config, now);
  std::visit(Overload{
                 [&](const Reported& reported) { OnReport(step, reported.report); },
                 [&](const CallEnded& ended) { OnCallEnded(step, ended); },
                 [&](const Controlled& controlled) { OnControlled(step, controlled); },
                 [&](const Tick&) {
                   ExpireNodes(step);
                   if (!HasEnded(state)) {
                     ExpirePhase(step);
                   }
                 },
                 [&](const OutcomeKept&) {
                   state.edition += state.outcome_kept ? 0 : 1;
                   state.outcome_kept = true;
                 },
                 [&](const ClaimGood& good) {
                   state.claim_good = good.until;
                   state.claim_lease = good.lease;
                   GoOn(step);
                 },
             },
             event);
  state.stepped = now;
  state.wake = NextWake(state, config);
  return {std::move(step.events), !had_ended && HasEnded(state), std::move(step.evidence)};
}

}  // namespace ddprun
