#include "agent/core/transitions.h"

#include <algorithm>

#include "common/exit_code.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

constexpr Duration kAcknowledgement{200};
constexpr Duration kUnkillable{5'000};  // KILL to giving up on a process.
constexpr Duration kActive{3'000};      // From a worker's last activity to KILL.

}  // namespace

bool HasWorkers(const AgentState& state) {
  return state.phase == AgentPhase::kRunning || state.phase == AgentPhase::kStopping;
}

int StopCode(const AgentState& state, const AgentConfig& config) {
  const bool planned = config.preemptible || (state.job_end && state.job_end->stop);
  const bool nothing_lost = state.saved || !state.placement;  // A spare has nothing to save.
  const bool saved = planned && nothing_lost && !state.unsaved;
  return saved && state.signal != kSigInt ? kExitRestart : kExitSignalBase + state.signal;
}

int ExitCodeFor(const AgentState& state, const AgentConfig& config, const Finish& finish) {
  const bool stopped = finish.ending != Ending::kSucceeded && finish.ending != Ending::kRefused;
  const int code = StopCode(state, config);
  const bool on_request = finish.exit_code == kExitSignalBase + kSigInt ||
                          (finish.ending == Ending::kLeft && state.signal != 0);
  const bool own = code == kExitRestart ? on_request : state.signal != 0;
  if (stopped && own) {
    return code;
  }
  return finish.gave_up && config.give_up_code != 0 ? config.give_up_code : finish.exit_code;
}

void ExitNow(AgentStepContext& step, int code, std::string text) {
  step.state.phase = AgentPhase::kDone;
  step.state.exit_at.reset();
  step.state.retry_at.reset();
  step.effects.push_back(Exit{code, step.state.finish, std::move(text)});
}

void BeginStop(AgentStepContext& step, bool planned, int signal) {
  AgentState& state = step.state;
  if (state.phase != AgentPhase::kRunning) {
    return;
  }
  state.phase = AgentPhase::kStopping;
  state.planned = planned;
  state.saving = !planned && step.config.stop_grace > kStopGrace;
  state.stop_began = step.now;
  state.kill_at = step.now + (planned ? step.config.spec.shutdown_timeout : step.config.stop_grace);
  if (planned && signal == kSigInt) {
    const Duration last = std::min(kStopGrace, step.config.spec.shutdown_timeout / 2);
    state.terminate_at = *state.kill_at - last;
  }
  step.effects.push_back(SignalWorkers{signal, !planned});
}

void TerminateIfDue(AgentStepContext& step) {
  AgentState& state = step.state;
  if (!state.terminate_at || step.now < *state.terminate_at) {
    return;
  }
  state.terminate_at.reset();
  if (state.alive > 0) {
    step.Tell(NoticeLevel::kInfo,
              "SIGINT has not ended " + CountOf(state.alive, "worker") + ": sending SIGTERM");
  }
  step.effects.push_back(SignalWorkers{kSigTerm});
}

void HurryStop(AgentStepContext& step) {
  AgentState& state = step.state;
  state.planned = false;
  state.saving = step.config.stop_grace > kStopGrace;
  state.terminate_at.reset();
  step.effects.push_back(SignalWorkers{kSigTerm, true});
  if (state.kill_at) {
    state.kill_at = std::min<Time>(*state.kill_at, step.now + step.config.stop_grace);
  }
}

void ProlongStop(AgentStepContext& step, const StillActive& active) {
  AgentState& state = step.state;
  if (state.phase != AgentPhase::kStopping || state.planned || state.taking_stacks ||
      !state.kill_at || active.generation != state.placement->generation) {
    return;
  }
  const Time last = state.stop_began + step.config.spec.shutdown_timeout;
  const Time kill_at = std::min<Time>(last, step.now + kActive);
  if (kill_at <= *state.kill_at) {
    return;
  }
  if (!std::exchange(state.saving, true)) {
    step.Tell(NoticeLevel::kInfo, "workers that were asked to end are still active: they have " +
                                      FormatDuration(step.config.spec.shutdown_timeout) +
                                      " in all (--shutdown-timeout)");
  }
  state.kill_at = kill_at;
}

void KillNow(AgentStepContext& step) {
  step.state.terminate_at.reset();
  step.state.kill_at.reset();
  step.state.taking_stacks = false;
  step.state.unkillable_at = step.now + kUnkillable;
  step.effects.push_back(KillWorkers{});
}

void RenewMembership(AgentState& state) {
  // The sequence continues to grow: a late answer to the old membership must not pass for a new
  // one.
  state.former_incarnation = state.incarnation;
  state.incarnation = *std::exchange(state.next_incarnation, std::nullopt);
  state.echo.reset();
  state.placement.reset();
  state.outcome = Outcome::kNone;
  state.failures.clear();
  state.spawn_failure.clear();
  state.start_timings = {};
}

void BeginDone(AgentStepContext& step) {
  step.state.phase = AgentPhase::kDone;
  step.state.exit_at = step.now + kAcknowledgement;
  step.send = true;
}

void BecomeIdle(AgentStepContext& step, Generation generation) {
  AgentState& state = step.state;
  state.phase = AgentPhase::kIdle;
  state.floor = std::max(state.floor, generation);
  state.terminate_at.reset();
  state.kill_at.reset();
  state.taking_stacks = false;
  state.saving = false;
  state.fenced = false;
  state.heartbeats.clear();
  state.unkillable_at.reset();
  state.unkillable = 0;
  state.alive = 0;
  state.heard = std::max(state.heard, step.now);  // An outage counts from here.
  if (state.next_incarnation && !state.finish) {
    RenewMembership(state);
  }
  if (state.signal != 0) {
    state.exit_at = step.now + kLeaveAlone;
  }
  if (state.finish) {
    BeginDone(step);
  }
}

void LookAtOnce(AgentStepContext& step) {
  AgentState& state = step.state;
  if (state.retry_at && state.poll_period < kLargeWorldsPoll) {
    state.backoff = Duration{0};
    step.send = true;
  }
}

void KeepEvents(AgentState& state, const SyncReply& reply) {
  state.history.Merge(reply.events, reply.term.Next());
  state.events_kept = reply.events_kept;
}

}  // namespace ddprun
