#include "agent/core/turn.h"

#include <algorithm>

namespace ddprun {
namespace {

constexpr Duration kAcknowledgement{200};
constexpr Duration kUnkillable{5'000};  // KILL to giving up on a process.
constexpr int kInterrupt = 2;           // POSIX numbers; <signal.h> stays out of the core.
constexpr int kTerminate = 15;
constexpr int kRestartMe = 75;

}  // namespace

bool HasWorkers(const AgentState& state) {
  return state.phase == AgentPhase::kRunning || state.phase == AgentPhase::kStopping;
}

int StopCode(const AgentState& state, const AgentConfig& config) {
  const bool planned = config.preemptible || (state.job_end && state.job_end->stop);
  const bool nothing_lost = state.saved || !state.placement;  // A spare has nothing to save.
  const bool saved = planned && nothing_lost && !state.unsaved;
  return saved && state.signal != kInterrupt ? kRestartMe : kSignalBase + state.signal;
}

int ExitCodeFor(const AgentState& state, const AgentConfig& config, const Finish& finish) {
  const bool stopped = finish.ending != Ending::kSucceeded && finish.ending != Ending::kRefused;
  const int code = StopCode(state, config);
  const bool on_request = finish.exit_code == kSignalBase + kInterrupt ||
                          (finish.ending == Ending::kLeft && state.signal != 0);
  const bool own = code == kRestartMe ? on_request : state.signal != 0;
  if (stopped && own) {
    return code;
  }
  return finish.gave_up && config.give_up_code != 0 ? config.give_up_code : finish.exit_code;
}

void ExitNow(AgentTurn& turn, int code, std::string text) {
  turn.state.phase = AgentPhase::kDone;
  turn.state.exit_at.reset();
  turn.state.retry_at.reset();
  turn.effects.push_back(Exit{code, turn.state.finish, std::move(text)});
}

void BeginStop(AgentTurn& turn, bool planned, int signal) {
  AgentState& state = turn.state;
  if (state.phase != AgentPhase::kRunning) {
    return;
  }
  state.phase = AgentPhase::kStopping;
  state.planned = planned;
  state.stop_began = turn.now;
  state.kill_at = turn.now + (planned ? turn.config.shutdown_timeout : turn.config.stop_grace);
  turn.effects.push_back(SignalWorkers{signal, !planned});
}

void HurryStop(AgentTurn& turn) {
  AgentState& state = turn.state;
  state.planned = false;
  turn.effects.push_back(SignalWorkers{kTerminate, true});
  if (state.kill_at) {
    state.kill_at = std::min<Time>(*state.kill_at, turn.now + turn.config.stop_grace);
  }
}

void KillNow(AgentTurn& turn) {
  turn.state.kill_at.reset();
  turn.state.taking_stacks = false;
  turn.state.unkillable_at = turn.now + kUnkillable;
  turn.effects.push_back(KillWorkers{});
}

void RenewMembership(AgentState& state) {
  // The sequence goes on growing: a late answer to the old membership must not pass for a new one.
  state.incarnation = *std::exchange(state.next_incarnation, std::nullopt);
  state.echo.reset();
  state.placement.reset();
  state.outcome = Outcome::kNone;
  state.failures.clear();
  state.spawn_failure.clear();
}

void BeginDone(AgentTurn& turn) {
  turn.state.phase = AgentPhase::kDone;
  turn.state.exit_at = turn.now + kAcknowledgement;
  turn.send = true;
}

void BecomeIdle(AgentTurn& turn, Generation generation) {
  AgentState& state = turn.state;
  state.phase = AgentPhase::kIdle;
  state.floor = std::max(state.floor, generation);
  state.kill_at.reset();
  state.taking_stacks = false;
  state.fenced = false;
  state.heartbeats.clear();
  state.unkillable_at.reset();
  state.unkillable = 0;
  state.alive = 0;
  state.heard = std::max(state.heard, turn.now);  // An outage counts from here.
  if (state.next_incarnation && !state.finish) {
    RenewMembership(state);
  }
  if (state.signal != 0) {
    state.exit_at = turn.now + kLeaveAlone;
  }
  if (state.finish) {
    BeginDone(turn);
  }
}

}  // namespace ddprun
