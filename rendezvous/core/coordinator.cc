#include "rendezvous/core/coordinator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/overload.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/budget.h"
#include "rendezvous/core/control.h"
#include "rendezvous/core/describe.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/growth.h"
#include "rendezvous/core/hang.h"
#include "rendezvous/core/keeping.h"
#include "rendezvous/core/node_index.h"
#include "rendezvous/core/record.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/turn.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

// Beyond this, a tick came late because this server was paused, not because nodes are gone.
constexpr auto kLate = 100ms;
constexpr int kUnavailable = 69;

void ReportFromMember(CoordinatorTurn& turn, const NodeKey& key, Member& member, bool leaves,
                      const NodeReport& report) {
  CoordinatorState& state = turn.state;
  if (SpeaksOfWorld(report, *state.world)) {
    member.hosted = true;
    if (report.hosting == Hosting::kNothing && report.outcome == Outcome::kSucceeded) {
      member.succeeded = true;
    }
    NoteProgress(state.budget, report.progress);
    Refile(state, turn.config, key.node);
  }
  const bool active = state.phase == Phase::kRunning || state.phase == Phase::kDraining;
  if (active && leaves && !member.succeeded) {
    BeginDrain(turn, StopCause::kLeave, true);
  }
  // Also of who says that it hosts the world: it must not be told to run what it promised not to.
  const bool promised_away = report.floor >= state.world->generation && !member.succeeded;
  const bool failed = SpeaksOfWorld(report, *state.world) &&
                      (!report.failures.empty() || report.hosting == Hosting::kStopping);
  if (state.phase == Phase::kRunning && (promised_away || failed)) {
    BeginDrain(turn, StopCause::kFailure, false);
  }
  LookForHang(turn, key, report);
  if (state.phase == Phase::kDraining) {
    CollectEvidence(turn, key, report);
  }
  if (state.phase == Phase::kRunning && state.world->roll.unfinished.empty()) {
    turn.Say(NoticeLevel::kDetail, "every worker finished");
    EndRun(turn, Finish{Ending::kSucceeded, 0, "all workers finished", {}});
  }
}

void Arrive(CoordinatorTurn& turn, NodeState& node, const NodeReport& report) {
  const Duration lease = LeaseOf(turn.state, turn.config);
  if (node.report.sequence == 0) {
    node.expires = turn.now + lease;  // First contact.
  } else if (report.term == turn.config.term) {
    const Time beat{std::chrono::microseconds(std::max<std::int64_t>(0, report.beat))};
    node.expires = std::max(node.expires, std::min(turn.now, beat) + lease);
  }
  if (node.forget) {  // Until it speaks as another one, it must hear what it is told as this one.
    node.forget = std::max(*node.forget, turn.now + kLeasesUntilForgotten * lease);
  }
  node.report =
      ToKeep(report, FindMember(turn.state, {report.node, report.incarnation}) != nullptr);
  node.heard = turn.now;
  if (node.asked_to_leave) {
    node.report.leaving = std::max(node.report.leaving, Leaving::kLeave);
  }
  node.waited |= report.leaving == Leaving::kNo;
  node.call_open = true;
  node.unconnected.reset();
  node.cancelled.reset();
  node.lease_decides = false;
  node.acknowledged |= report.echo && std::holds_alternative<Finish>(*report.echo);
  Refile(turn.state, turn.config, report.node);
}

void OnReport(CoordinatorTurn& turn, const NodeReport& report) {
  CoordinatorState& state = turn.state;
  const NodeKey key{report.node, report.incarnation};
  if (!IsNewest(state, report)) {
    return;
  }
  std::optional<std::string> malformed = WhyMalformed(report);
  if (!state.shape && !malformed) {
    state.shape = report.shape;
    state.since = turn.now;
  }
  const bool known = state.nodes.contains(key);
  if (!known && !MakeRoomFor(turn, key)) {
    return;
  }
  NodeState& node = state.nodes[key];
  if (!known) {
    node.joined = ++state.joins;
    node.held = HoldBack(state.growth, key.node, turn.now);
  }
  if (!node.refused && (malformed || !known)) {
    node.refused = malformed ? std::move(malformed) : WhyRefused(state, report);
    if (node.refused) {
      turn.Say(NoticeLevel::kWarning, "refused node " + key.node + ": " + *node.refused,
               "a node was refused");
    }
  }
  Arrive(turn, node, report);
  if (node.refused) {
    return;
  }
  state.newest = std::max(state.newest, report.floor);
  if (report.placement) {
    state.newest = std::max(state.newest, report.placement->generation);
  }
  if (HasEnded(state)) {
    return;
  }
  FenceAnew(turn, report);
  EndFenceOf(turn, report);
  if (node.lost || HasEnded(state)) {
    return;
  }
  if (!state.world) {
    const bool windowed = state.shape->restart_window > Duration{0};  // Older ones may have passed.
    state.restarts_used = std::max(
        state.restarts_used, windowed ? report.restarts_used
                                      : std::min(report.restarts_used, state.shape->max_restarts));
  }
  if (CollectForRecovery(turn, key, report)) {
    return;
  }
  ActOnReport(turn, key, report);
}

// Several closed at once: our side or a proxy restarted, so the lease decides and not the grace.
bool ClosedWithOthers(const CoordinatorState& state, const CoordinatorConfig& config, Time when) {
  const auto& closed = state.index.cancelled;
  const auto first = closed.lower_bound(when - config.disconnect_grace);
  return first != closed.end() && std::next(first) != closed.end() &&
         *std::next(first) <= when + config.disconnect_grace;
}

// The rules (a) closed connection, (b) lease, (c) successor; any of them is enough.
std::optional<std::string> WhyLost(const CoordinatorTurn& turn, const NodeKey& key,
                                   NodeState& node) {
  const Duration grace = turn.config.disconnect_grace;
  if (turn.now >= node.expires) {
    return "nothing heard for its lease of " + FormatDuration(LeaseOf(turn.state, turn.config));
  }
  if (node.cancelled && !node.lease_decides && turn.now >= *node.cancelled + grace) {
    if (!ClosedWithOthers(turn.state, turn.config, *node.cancelled)) {
      return "its connection closed and it did not come back within " + FormatDuration(grace);
    }
    node.lease_decides = true;
  }
  if (node.unconnected && turn.now >= *node.unconnected + grace && HasSuccessor(turn.state, key)) {
    return "a new agent of the same node has taken its place";
  }
  return std::nullopt;
}

void ExpireNodes(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  std::vector<NodeKey> due;
  for (const auto& [when, key] : state.index.due) {
    if (when > turn.now) {
      break;
    }
    due.push_back(key);
  }
  std::vector<std::pair<NodeKey, std::string>> lost;
  for (const NodeKey& key : due) {
    NodeState& node = state.nodes.at(key);
    if (node.held && turn.now >= node.held->until) {
      node.held.reset();
    }
    if (node.acknowledged && turn.now >= node.expires) {
      node.lost = true;  // It knows the outcome and is gone, as it should be.
      LeavePlace(state, key);
      if (Member* const member = FindMember(state, key)) {
        member->lost = true;  // Nobody waits for it to stop.
      }
      node.forget = node.expires + kLeasesUntilForgotten * LeaseOf(state, turn.config);
    } else if (auto why = node.acknowledged ? std::nullopt : WhyLost(turn, key, node)) {
      lost.emplace_back(key, *std::move(why));
    }
    Refile(state, turn.config, key.node);
  }
  for (const auto& [key, why] : lost) {
    Lose(turn, key, why);
  }
  auto& forget = state.index.forget;
  while (!forget.empty() && forget.begin()->first <= turn.now) {
    Forget(state, NodeKey(forget.begin()->second));
  }
}

void ExpirePhase(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  EndRecoveryIfDue(turn);
  if (state.phase == Phase::kRunning) {
    if (turn.now >= state.since + turn.config.start_timeout) {
      for (const std::size_t rank : std::set<std::size_t>(state.world->roll.silent)) {
        Lose(turn, state.world->members[rank].key, "told to run, it has not started its workers");
      }
    }
  }
  if (state.phase == Phase::kDraining) {
    const Duration grace =
        IsPlanned(state.drain->cause) ? turn.config.shutdown_timeout : turn.config.stop_grace;
    if (turn.now >= state.drain->began + grace + LeaseOf(state, turn.config)) {
      for (const std::size_t rank : std::set<std::size_t>(state.world->roll.undrained)) {
        if (const Member& member = state.world->members[rank]; !member.lost) {
          Lose(turn, NodeKey(member.key), "its workers cannot be stopped");
        }
      }
    }
    EndFences(turn);
  }
  JudgeIfDrained(turn);
  TryForm(turn);
  ConsiderGrowth(turn);
  if (state.phase == Phase::kGathering && state.shape &&
      turn.now >= state.since + state.shape->join_timeout) {
    const std::uint32_t have = CountReady(state);
    EndRun(turn, Finish{Ending::kFailed,
                        kUnavailable,
                        std::to_string(have) + " of " + std::to_string(state.shape->min_nodes) +
                            " nodes came within " + FormatDuration(state.shape->join_timeout) +
                            " (join_timeout)",
                        {}});
    turn.Say(NoticeLevel::kDetail, "the run failed: " + state.outcome->text);  // Nodes say it.
  }
}

// A tick that comes late (this server was paused) extends leases, graces and the deadlines of
// stopping and starting by the lateness: what nodes had to say may be waiting in the socket.
// A grace more, so that what was due at the wake-up is not due at once.
void ForgiveOwnPause(CoordinatorState& state, const CoordinatorConfig& config, Time now) {
  // Once per pause: what a tick alone settles stays due while the messages behind it are fed.
  const Time awake = std::max(state.wake.value_or(now), state.stepped);
  if (now <= awake + kLate) {
    return;
  }
  const auto late = now - awake + config.disconnect_grace;
  if (state.drain) {
    state.drain->began += late;
  }
  if (state.phase == Phase::kRunning || state.phase == Phase::kRecovering) {
    state.since += late;  // The start deadline, or the lease of recovery, counts from it.
  }
  for (auto& [key, node] : state.nodes) {
    node.expires += late;
    if (node.cancelled) {
      *node.cancelled += late;
    }
    if (node.unconnected) {
      *node.unconnected += late;
    }
  }
  RefileAll(state, config);
}

void OnCallEnded(CoordinatorTurn& turn, const CallEnded& ended) {
  const auto found = turn.state.nodes.find({ended.node, ended.incarnation});
  if (found == turn.state.nodes.end() || found->second.report.sequence != ended.sequence) {
    return;  // An older call: the newer one speaks for the node.
  }
  NodeState& node = found->second;
  node.call_open = false;
  node.unconnected = turn.now;
  if (ended.cancelled) {
    node.cancelled = turn.now;
  }
  Refile(turn.state, turn.config, ended.node);
}

}  // namespace

void ActOnReport(CoordinatorTurn& turn, const NodeKey& key, const NodeReport& report) {
  CoordinatorState& state = turn.state;
  Leaving& leaving = state.nodes.at(key).report.leaving;
  if (leaving == Leaving::kStopRun) {
    if (!MayStopRun(state, key)) {
      leaving = Leaving::kLeave;
    } else if (state.phase == Phase::kGathering) {
      EndRun(turn, Finish{Ending::kFailed, 130, "the run was stopped on request", {}});
      return;
    } else {
      BeginDrain(turn, StopCause::kOperator, true);
    }
  }
  if (Member* const member = FindMember(state, key)) {
    ReportFromMember(turn, key, *member, leaving == Leaving::kLeave, report);
  }
  JudgeIfDrained(turn);
  TryForm(turn);
  ConsiderGrowth(turn);
}

CoordinatorEffects Step(CoordinatorState& state, const CoordinatorConfig& config,
                        const CoordinatorEvent& event, Time now) {
  CoordinatorTurn turn{state, config, now, {}};
  const RecordMark before = MarkOf(state);
  ForgiveOwnPause(state, config, now);
  std::visit(Overload{
                 [&](const Reported& reported) { OnReport(turn, reported.report); },
                 [&](const CallEnded& ended) { OnCallEnded(turn, ended); },
                 [&](const Controlled& controlled) { OnControlled(turn, controlled); },
                 [&](const Tick&) {
                   ExpireNodes(turn);
                   if (!HasEnded(state)) {
                     ExpirePhase(turn);
                   }
                 },
                 [&](const Persisted& persisted) { OnPersisted(state, persisted.number); },
                 [&](const ClaimGood& good) {
                   state.claim_good = good.until;
                   TryForm(turn);
                 },
             },
             event);
  state.stepped = now;
  state.wake = NextWake(state, config);
  return {std::move(turn.notices), RecordIfChanged(state, config, before)};
}

bool IsNewest(const CoordinatorState& state, const NodeReport& report) {
  const auto found = state.nodes.find({report.node, report.incarnation});
  return found == state.nodes.end() || report.sequence > found->second.report.sequence;
}

Duration LeaseOf(const CoordinatorState& state, const CoordinatorConfig& config) {
  return std::max(config.base_lease,
                  config.lease_per_node * static_cast<Duration::rep>(NodesThatCount(state)));
}

std::size_t NodesThatCount(const CoordinatorState& state) {
  if (!state.shape) {
    return 0;
  }
  const std::size_t world = state.world ? state.world->members.size() : 0;
  const bool gathers = state.phase == Phase::kGathering;
  const std::size_t next =
      gathers ? std::min(state.index.ready + state.index.held, state.shape->max_nodes) : 0;
  return std::max<std::size_t>({state.shape->min_nodes, NodesToRecover(state), world, next});
}

bool IsOver(const CoordinatorState& state) {
  return HasEnded(state) && state.index.served == 0;
}

bool ClaimIsInDoubt(const CoordinatorState& state, Time now) {
  return state.claim_good && now > *state.claim_good;
}

}  // namespace ddprun
