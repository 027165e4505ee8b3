#include "agent/core/node_agent.h"

#include <algorithm>
#include <utility>

#include "agent/core/fencing.h"
#include "agent/core/fitness.h"
#include "agent/core/health.h"
#include "agent/core/signals.h"
#include "agent/core/start_timings.h"
#include "agent/core/transitions.h"
#include "common/exit_code.h"
#include "common/overload.h"
#include "common/slug.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr Duration kFirstBackoff = 20ms;  // gRPC's own default, 1 s, is a lost second per cut.
constexpr Duration kLastBackoff = 1s;
// Longer each time: a server that thousands come to would else only see calls that are given up.
constexpr Duration kFirstCallDeadline = 3s;
constexpr Duration kLongestFirstCall = 30s;

// ---- Directives ----
void OnRun(AgentStepContext& step, const Run& run) {
  AgentState& state = step.state;
  const Generation generation = run.placement.generation;
  if (state.phase == AgentPhase::kRunning && state.placement->world_id != run.placement.world_id &&
      generation > state.placement->generation) {
    BeginStop(step, false, kSigTerm);
    return;
  }
  if (state.phase != AgentPhase::kIdle || generation <= state.floor ||
      state.leaving != Leaving::kNo || !MayHost(state)) {
    return;
  }
  state.phase = AgentPhase::kRunning;
  state.placement = run.placement;
  state.restarts_used = run.placement.restarts_used;
  state.outcome = Outcome::kNone;
  state.failures.clear();
  state.dying.clear();
  state.spawn_failure.clear();
  state.alive = step.config.workers;
  state.succeeded = 0;
  state.start_lasts = false;
  state.early_signals.clear();
  state.progress = 0;
  ForgetWords(state);
  state.planned = false;
  BeginPace(step);
  BeginStart(step);
  state.saved_before = state.saved && !state.unsaved;
  state.saved = false;
  state.unsaved = false;
  state.waiting.reset();
  step.effects.push_back(Spawn{run.placement});
}

void OnStop(AgentStepContext& step, const Stop& stop, Incarnation spare) {
  AgentState& state = step.state;
  state.floor = std::max(state.floor, stop.generation);
  if (stop.cause == StopCause::kDeclaredLost && !state.next_incarnation) {
    step.Tell(NoticeLevel::kWarning,
              "this node was declared lost (cut off or paused for too long): its workers stop and "
              "it joins again [declared-lost]");
    state.next_incarnation = spare;
    if (!HasWorkers(state)) {
      RenewMembership(state);
    }
  }
  if (state.phase == AgentPhase::kRunning && stop.generation >= state.placement->generation) {
    step.Tell(NoticeLevel::kInfo, "stopping the workers: " + Describe(stop.cause));
    if (stop.cause == StopCause::kHang) {
      state.fitness.suspect = true;
      BeginHangStop(step);
    } else {
      BeginStop(step, IsPlanned(stop.cause), stop.interrupts ? kSigInt : kSigTerm);
    }
  } else if (state.phase == AgentPhase::kStopping && state.planned && !IsPlanned(stop.cause)) {
    HurryStop(step);
  }
}

void OnFinish(AgentStepContext& step, const Finish& finish) {
  AgentState& state = step.state;
  const bool first = !state.finish.has_value();
  state.finish = finish;
  if (state.phase == AgentPhase::kRunning) {
    BeginStop(step, true, kSigTerm);
  } else if (state.phase == AgentPhase::kIdle && first) {
    BeginDone(step);
  }
}

void OnWait(AgentStepContext& step, const Wait& wait) {
  WaitReason reason = wait.reason;
  reason.remaining.reset();
  if (step.state.waiting != reason) {
    step.state.waiting = reason;
    const bool brief = reason.what == WaitFor::kDrain || reason.what == WaitFor::kOutcomeKept ||
                       reason.what == WaitFor::kUnfit ||  // Said with the verdict.
                       (reason.what == WaitFor::kCheck && reason.missing.empty());
    step.Tell(brief ? NoticeLevel::kDetail : NoticeLevel::kInfo, Describe(wait.reason));
  }
}

// In the order in which they failed; `at` may be before the first one's.
void AddFailure(AgentState& state, WorkerFailure failure, Time at) {
  if (state.failures.empty() || at < state.first_failure) {
    const Time before = std::exchange(state.first_failure, at);
    for (WorkerFailure& other : state.failures) {
      other.after += std::chrono::floor<Duration>(before - at);
    }
  }
  failure.after = std::chrono::floor<Duration>(at - state.first_failure);
  const auto place = std::upper_bound(
      state.failures.begin(), state.failures.end(), failure,
      [](const WorkerFailure& a, const WorkerFailure& b) { return a.after < b.after; });
  state.failures.insert(place, std::move(failure));
  if (state.failures.size() > kMaxFailures) {
    state.failures.pop_back();
  }
}

// ---- Events ----
void OnReplied(AgentStepContext& step, const Replied& replied) {
  AgentState& state = step.state;
  if (replied.sequence != state.sequence) {
    return;  // An overtaken call's answer may have been revoked since.
  }
  state.call_open = false;
  if (state.phase == AgentPhase::kDone) {
    if (state.exit_at) {  // The acknowledgement has arrived.
      ExitNow(step, ExitCodeFor(state, step.config, *state.finish), "");
    }
    return;
  }
  if (replied.reply.term < state.term) {
    state.retry_at = step.now + kLastBackoff;
    return;
  }
  if (state.outage_told) {
    step.Tell(NoticeLevel::kInfo,
              "the rendezvous at " + step.config.server + " is reachable again");
  }
  state.outage_told.reset();
  state.heard = step.now;
  state.answered = state.sent;  // Not now: the server counts from before it answered (fencing.h).
  state.ever_heard = true;
  state.backoff = Duration{0};
  state.retry_at.reset();
  state.term = replied.reply.term;
  state.beat = replied.reply.beat;
  state.poll_period = replied.reply.poll_period;
  KeepEvents(state, replied.reply);
  step.send = true;
  if (std::holds_alternative<Run>(replied.reply.directive) && ComesTooLate(step)) {
    return;  // Not echoed: the server repeats it at once if it still holds.
  }
  state.echo = replied.reply.directive;
  std::visit(Overload{
                 [&](const Wait& wait) { OnWait(step, wait); },
                 [&](const Run& run) { OnRun(step, run); },
                 [&](const Stop& stop) { OnStop(step, stop, replied.spare); },
                 [&](const Finish& finish) { OnFinish(step, finish); },
             },
             replied.reply.directive);
}

void OnCallFailed(AgentStepContext& step, const CallFailed& failed) {
  AgentState& state = step.state;
  if (failed.sequence != state.sequence) {
    return;
  }
  state.call_open = false;
  if (failed.hopeless && !state.ever_heard && !HasWorkers(state)) {
    ExitNow(step, kExitUsage, failed.text);
    return;
  }
  const Duration last = std::clamp(state.poll_period / kTriesPerPoll, kFirstBackoff, kLastBackoff);
  state.backoff = std::clamp(state.backoff * 2, kFirstBackoff, last);
  state.retry_at = step.now + state.backoff;
  state.last_error = failed.text;
  // Once more when the workers have ended: from then on there is a limit.
  if (state.phase != AgentPhase::kDone && state.outage_told != HasWorkers(state) &&
      step.now >= state.heard + state.poll_period) {
    state.outage_told = HasWorkers(state);
    const std::string what = OutageInWords(state, step.config);
    const std::string& who = step.config.successor;
    step.Tell(NoticeLevel::kWarning,
              Continue(failed.text, what + (who.empty() ? "" : " (" + who + ")")));
  }
}

// Its end is known once its memory was given back. Its peers need not wait for that.
void OnWorkerDying(AgentStepContext& step, const WorkerDying& dying) {
  AgentState& state = step.state;
  if (state.phase != AgentPhase::kRunning || dying.generation != state.placement->generation ||
      state.ended.contains(dying.local_rank)) {
    return;
  }
  state.dying.emplace(dying.local_rank, step.now);
  step.Tell(NoticeLevel::kDetail,
            "local rank " + std::to_string(dying.local_rank) + " dies: stopping the others");
  NoteBadNews(step, step.now);
  BeginStop(step, false, kSigTerm);
}

void OnWorkerEnded(AgentStepContext& step, const WorkerEnded& ended) {
  AgentState& state = step.state;
  if (!HasWorkers(state) || ended.generation != state.placement->generation) {
    return;
  }
  state.alive -= state.alive > 0 ? 1 : 0;
  HearNoMoreOf(state, ended.local_rank);
  if (state.unkillable > 0) {
    state.unkillable = std::max(1u, state.alive);
  }
  const bool stopping = WasStopped(state, ended.local_rank);
  if (Succeeded(ended.status)) {
    state.succeeded += stopping ? 0 : 1;
    return;
  }
  if (state.fenced) {
    return;
  }
  state.saved_before &= !ended.said_hello;
  const bool saved = ended.said_hello && ended.status == ExitStatus(Exited{kExitRestart});
  const bool nothing_lost = stopping && state.saved_before;  // It had hardly begun.
  (saved || nothing_lost ? state.saved : state.unsaved) = true;
  WorkerFailure failure;
  failure.rank = state.placement->first_rank + ended.local_rank;
  failure.local_rank = step.config.first_local_rank + ended.local_rank;
  failure.pid = ended.pid;
  failure.status = ended.status;
  failure.said_hello = ended.said_hello;
  failure.stopped_by_us = stopping;
  failure.recorded = ended.recorded && (!stopping || *ended.recorded < state.stop_began);
  failure.host = step.config.host;
  failure.last_lines = ended.last_lines.substr(0, kMaxLastLines);
  failure.details = ended.details;
  if (!stopping || failure.recorded) {
    // Alone, the coordinator beside it says the same with what follows from it.
    step.Tell(step.config.spec.max_nodes == 1 ? NoticeLevel::kDetail : NoticeLevel::kWarning,
              Describe(failure));
  }
  state.fitness.suspect |= !IsCollateral(failure);
  const auto began = state.dying.find(ended.local_rank);
  const Time failed = failure.recorded             ? *ended.recorded
                      : began != state.dying.end() ? began->second
                                                   : ended.noticed.value_or(step.now);
  AddFailure(state, std::move(failure), failed);
  if (!stopping) {
    NoteBadNews(step, ended.noticed.value_or(step.now));
    BeginStop(step, false, kSigTerm);
  }
}

void OnAllGone(AgentStepContext& step, const AllGone& gone) {
  AgentState& state = step.state;
  if (!HasWorkers(state) || gone.generation != state.placement->generation) {
    return;
  }
  const bool own_failure =
      std::any_of(state.failures.begin(), state.failures.end(),
                  [](const WorkerFailure& f) { return !f.stopped_by_us || f.recorded; });
  if (state.succeeded == step.config.workers) {
    state.outcome = Outcome::kSucceeded;
  } else {
    state.outcome = own_failure                   ? Outcome::kFailed
                    : state.spawn_failure.empty() ? Outcome::kStopped
                                                  : Outcome::kSpawnFailed;
  }
  state.saved |= state.alive == step.config.workers;  // Its start was given up: none had begun.
  state.store = gone.store;
  BecomeIdle(step, gone.generation);
  CheckIfSuspect(step);
}

void OnSpawnFailed(AgentStepContext& step, const SpawnFailed& failed) {
  AgentState& state = step.state;
  if (!HasWorkers(state) || failed.generation != state.placement->generation) {
    return;
  }
  state.outcome = Outcome::kSpawnFailed;
  state.spawn_failure = WithoutSlug(failed.text);
  state.fitness.suspect = true;
  state.store = failed.store;
  step.Tell(NoticeLevel::kWarning, "cannot start the workers: " + failed.text);
  BecomeIdle(step, failed.generation);
  CheckIfSuspect(step);
}

// They would try for half an hour, and say nothing of why.
void OnStoreRefuses(AgentStepContext& step, const StoreRefuses& refuses) {
  AgentState& state = step.state;
  if (state.phase != AgentPhase::kRunning || refuses.generation != state.placement->generation) {
    return;
  }
  state.spawn_failure = WithoutSlug(refuses.text);
  step.Tell(NoticeLevel::kWarning, "stopping the workers: " + refuses.text);
  BeginStop(step, false, kSigTerm);
}

void OnTick(AgentStepContext& step) {
  AgentState& state = step.state;
  const auto due = [&](const std::optional<Time>& when) { return when && step.now >= *when; };
  FindLateWorkers(step);
  FenceIfDue(step);
  CheckAgainIfDue(step);
  LeaveIfDue(step);
  if (due(StopTime(state))) {
    OnTimeUp(step);
  }
  TerminateIfDue(step);
  if (due(state.kill_at)) {
    if (state.taking_stacks) {
      step.Tell(NoticeLevel::kInfo,
                "reading the workers' stacks takes too long: killing the workers");
    } else if (state.alive > 0) {
      step.Tell(NoticeLevel::kWarning, CountOf(state.alive, "worker") +
                                           " did not end in time: killing " +
                                           (state.alive == 1 ? "it" : "them"));
    }
    KillNow(step);
  }
  if (due(state.unkillable_at)) {
    state.unkillable_at.reset();
    state.unkillable = std::max(1u, state.alive);
    step.Tell(NoticeLevel::kWarning, std::to_string(state.unkillable) +
                                         " workers outlive SIGKILL (uninterruptible sleep?); "
                                         "waiting for them [unkillable-workers]");
  }
  if (due(state.exit_at)) {
    if (state.finish) {
      ExitNow(step, ExitCodeFor(state, step.config, *state.finish), "");
      return;
    }
    const bool silent = step.now >= state.heard + 2 * state.poll_period + kLeaveAlone;
    if (state.retry_at || !state.ever_heard || silent) {
      ExitNow(step, StopCode(state, step.config), "stopped by " + SignalName(state.signal));
      return;
    }
    state.exit_at = step.now + kLeaveAlone;  // The server is there: it will say when.
  }
  if (state.phase == AgentPhase::kIdle &&
      step.now >= state.heard + OutageLimit(state, step.config)) {
    if (!step.config.cannot_start.empty()) {
      ExitNow(step, kExitUsage, "cannot start the workers: " + step.config.cannot_start);
      return;
    }
    ExitNow(step, kExitUnavailable,
            "no rendezvous at " + step.config.server + " for " +
                FormatDuration(OutageLimit(state, step.config)) +
                (state.last_error.empty() ? "" : ": " + WithoutSlug(state.last_error)) +
                " [rendezvous-unreachable]");
    return;
  }
  if (due(state.retry_at)) {
    state.retry_at.reset();
    step.send = true;
  }
}

void SendIfDue(AgentStepContext& step, const NodeReport& before) {
  AgentState& state = step.state;
  const bool over = state.phase == AgentPhase::kDone && !state.exit_at;
  if (over || (!step.send && ReasonsOf(state) == before) || HoldsBackItsStart(step)) {
    return;
  }
  NodeReport report = ReportOf(state, step.config);
  report.sequence = ++state.sequence;
  state.call_open = true;
  state.sent = step.now;
  report.rank_details = RankDetailsOf(state, step.config);
  state.retry_at.reset();
  const Duration first =
      std::min(kLongestFirstCall, kFirstCallDeadline * (1 + state.backoff / kFirstBackoff));
  const Duration deadline = state.ever_heard ? state.poll_period * kCallTimeoutTenths / 10 : first;
  step.effects.push_back(SendReport{std::move(report), deadline});
}

}  // namespace

std::vector<AgentEffect> Step(AgentState& state, const AgentConfig& config, const AgentEvent& event,
                              Time now) {
  AgentStepContext step{
      .state = state, .config = config, .now = now, .before = std::exchange(state.last_event, now)};
  const NodeReport before = ReasonsOf(state);
  std::visit(Overload{
                 [&](const Started& started) {
                   state.incarnation = started.incarnation;
                   state.store = started.store;
                   state.heard = now;
                   step.send = true;
                   BeginFirstCheck(step);
                 },
                 [&](const Replied& replied) { OnReplied(step, replied); },
                 [&](const CallFailed& failed) { OnCallFailed(step, failed); },
                 [&](const WorkerDying& dying) { OnWorkerDying(step, dying); },
                 [&](const WorkerEnded& ended) { OnWorkerEnded(step, ended); },
                 [&](const AllGone& gone) { OnAllGone(step, gone); },
                 [&](const SpawnFailed& failed) { OnSpawnFailed(step, failed); },
                 [&](const StoreRefuses& refuses) { OnStoreRefuses(step, refuses); },
                 [&](const StillActive& active) { ProlongStop(step, active); },
                 [&](const WorkersStarted& started) {
                   NoteStarted(step, started);
                   PassOnEarlySignals(step, started.generation);
                 },
                 [&](const StartLasts& start) {
                   const bool current =
                       HasWorkers(state) && start.generation == state.placement->generation;
                   state.start_lasts = current ? start.lasts : state.start_lasts;
                 },
                 [&](const WorkerSpoke& spoke) { OnWord(step, spoke); },
                 [&](const NodeChecked& checked) { OnChecked(step, checked); },
                 [&](const HostLooked& looked) { OnHostLooked(step, looked); },
                 [&](const StacksTaken& taken) {
                   if (state.taking_stacks && state.phase == AgentPhase::kStopping &&
                       taken.generation == state.placement->generation) {
                     KillNow(step);
                   }
                 },
                 [&](const SignalArrived& arrived) { OnSignal(step, arrived); },
                 [&](const JobEndKnown& known) { state.job_end = known; },
                 [&](const ServerChanged&) { LookAtOnce(step); },
                 [&](const AgentTick&) { OnTick(step); },
             },
             event);
  SendIfDue(step, before);
  return std::move(step.effects);
}

}  // namespace ddprun
