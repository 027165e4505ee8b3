#include "agent/core/signals.h"

#include <algorithm>
#include <utility>

#include "common/exit_code.h"

namespace ddprun {
namespace {

constexpr int kPreempted = kSigTerm;

// Of an idle node: it never had workers, or what became of them is judged and the next world
// gathers.
bool NothingIsUnsaved(const AgentState& state) {
  const Wait* const wait = state.echo ? std::get_if<Wait>(&*state.echo) : nullptr;
  return state.outcome == Outcome::kNone ||
         (wait != nullptr && wait->reason.what != WaitFor::kDrain);
}

// The first request to end, by a signal, a scheduler, an operator or the job's time limit: the
// workers that run get the signal, and --shutdown-timeout. `given`: the purpose of that time.
void Leave(AgentStepContext& step, const SignalArrived& request, Leaving leaving,
           const std::string& why, const std::string& given) {
  AgentState& state = step.state;
  state.signal = request.signal;
  state.leaving = leaving;
  state.interrupted = request.signal == kSigInt;
  if (state.phase == AgentPhase::kRunning) {
    const bool starting = state.start_lasts || request.starting;
    step.Tell(
        NoticeLevel::kInfo,
        why + (starting ? ": the workers are not started yet; cancelling their start" : given));
    // A start that is not over gets TERM, which it is given up by. USR1 would reach no worker.
    BeginStop(step, true, starting ? kSigTerm : request.signal);
  } else if (state.phase == AgentPhase::kIdle) {
    step.Tell(NoticeLevel::kInfo, why + ": leaving the run");
    state.exit_at = step.now + kLeaveAlone;
  }
}

// The request goes to all nodes, so the run stops wherever the signal arrives first; or only this
// node leaves, and if all nodes get the signal all leave.
void Preempt(AgentStepContext& step, const SignalArrived& arrived, const std::string& why) {
  AgentState& state = step.state;
  Leave(step, arrived, step.config.leaves_alone ? Leaving::kLeave : Leaving::kStopRun, why,
        ": the workers have " + FormatDuration(step.config.spec.shutdown_timeout) +
            " to save and end (--shutdown-timeout) [stop-requested]");
  if (state.phase == AgentPhase::kIdle && NothingIsUnsaved(state)) {
    state.saved = true;
    state.unsaved = false;
  }
}

// A scheduler tells its tasks in several ways, and more than once, that they will be stopped: the
// first one counts.
void OnPreemption(AgentStepContext& step, const SignalArrived& arrived) {
  const std::string name = SignalName(arrived.signal);
  if (step.state.signal != 0) {
    step.Tell(NoticeLevel::kDetail, "got " + name + " too: stopping already");
    return;
  }
  Preempt(step, arrived, "got " + name + " from the scheduler");
}

// A program without a handler ends by it, so the log must name where it came from.
void PassOn(AgentStepContext& step, int signal) {
  step.Tell(NoticeLevel::kInfo, "got " + SignalName(signal) + ": passing it on to the workers");
  step.effects.push_back(SignalWorkers{signal});
}

}  // namespace

void OnSignal(AgentStepContext& step, const SignalArrived& arrived) {
  AgentState& state = step.state;
  const int signal = arrived.signal;
  if (state.phase == AgentPhase::kDone) {
    return;
  }
  const std::string name = SignalName(signal);
  if (step.config.preemptible && signal != kSigInt && signal != kSigQuit) {
    OnPreemption(step, arrived);
    return;
  }
  if (signal == kSigUsr1 || signal == kSigUsr2) {
    if (HasWorkers(state) && arrived.starting) {
      state.early_signals.insert(signal);
    } else if (HasWorkers(state)) {
      PassOn(step, signal);
    }
    return;
  }
  if (state.signal != 0) {
    step.Tell(NoticeLevel::kInfo, "got " + name + " again: killing the workers");
    if (HasWorkers(state)) {
      state.phase = AgentPhase::kStopping;
      KillNow(step);
    } else {
      ExitNow(step, kExitSignalBase + state.signal, "stopped by " + name);
    }
    return;
  }
  const bool alone = step.config.spec.max_nodes == 1 && HasWorkers(state);
  Leave(step, arrived, alone || signal == kSigInt ? Leaving::kStopRun : Leaving::kLeave,
        "got " + name,
        ": passing it on to the workers; they have " +
            FormatDuration(step.config.spec.shutdown_timeout) +
            " to end (--shutdown-timeout), a second signal kills them now");
}

void PassOnEarlySignals(AgentStepContext& step, Generation started) {
  AgentState& state = step.state;
  if (HasWorkers(state) && started == state.placement->generation) {
    for (const int signal : std::exchange(state.early_signals, {})) {
      PassOn(step, signal);
    }
  }
}

std::optional<Time> StopTime(const AgentState& state) {
  const bool counts = state.signal == 0 && !state.finish && state.phase != AgentPhase::kDone;
  return counts && state.job_end ? state.job_end->stop : std::nullopt;
}

void OnTimeUp(AgentStepContext& step) {
  const auto left = std::max<Time::duration>(step.state.job_end->ends - step.now, {});
  Preempt(step, {kPreempted},
          step.state.job_end->asked
              ? "an operator asked the run to save and end (ddprun stop --soon)"
              : "the job ends in " + FormatDuration(left) + " (--stop-before)");
}

}  // namespace ddprun
