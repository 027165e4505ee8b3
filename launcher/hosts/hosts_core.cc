#include "launcher/hosts/hosts_core.h"

#include <signal.h>

#include <algorithm>

#include "common/exit_code.h"
#include "common/slug.h"

namespace ddprun {
namespace {

// Nodes that stop on request do so one by one; a run that fails ends on all nodes together.
bool IsFailure(int code) {
  return code != kExitOk && code != kExitRestart && code != kExitInterrupted &&
         code != kExitTerminated;
}

class HostsStepContext {
 public:
  HostsStepContext(HostsState& state, const HostsConfig& config, Time now)
      : state_(state), config_(config), now_(now) {}

  void On(const LaunchBegins&) { state_.hosts.resize(config_.names.size()); }

  void On(const HostLacks& event) {
    HostState& host = state_.hosts[event.host];
    if (host.phase == HostPhase::kStarting && event.file < config_.copies.size()) {
      Await(host, HostsConfig::kCopyLimit);
      host.slow.reset();
      effects_.sent.emplace_back(event.host, event.file);
      Say(LogLevel::kInfo, "host " + config_.names[event.host] + " lacks " +
                               config_.copies[event.file] + ": sending it");
    }
  }

  void On(const HostGreets& event) {
    HostState& host = state_.hosts[event.host];
    if (host.phase == HostPhase::kStarting) {
      host.phase = HostPhase::kReady;
      host.deadline.reset();
      if (host.failures > 0) {
        Say(LogLevel::kInfo, "host " + config_.names[event.host] + " answers again");
      }
    }
  }

  void On(const HostEnds& event) {
    HostState& host = state_.hosts[event.host];
    if (host.phase == HostPhase::kRunning) {
      host.phase = HostPhase::kEnded;
      state_.last_code = event.code;
      const auto others = static_cast<std::size_t>(std::ranges::count_if(
          state_.hosts, [](const HostState& other) { return other.phase != HostPhase::kEnded; }));
      const bool wanting = IsFailure(event.code) && others < config_.min_nodes;
      if (event.run_ended || wanting || (state_.first == event.host && config_.first_ends_run)) {
        state_.run_code = state_.run_code.value_or(event.code);
        EndBy(HostsConfig::kEndGrace);
      }
    }
  }

  void On(const HostGone& event) {
    const HostPhase phase = state_.hosts[event.host].phase;
    if (phase == HostPhase::kStarting || phase == HostPhase::kReady ||
        phase == HostPhase::kRunning) {
      Fail(event.host, event.why);
    }
  }

  void On(const LaunchSignal& event) {
    Signal(event.number);
    if (event.stops) {
      EndBy(state_.stop_signal ? HostsConfig::kEndGrace : config_.stop_limit);
      state_.stop_signal = event.number;
      state_.terminated = true;
      state_.look_at = now_ + HostsConfig::kReaderLimit;
    }
  }

  void On(const HostsTick& event) {
    // A host that has not printed all yet, over a slow connection perhaps. One that is cut off from
    // the run may train on, and print for ever.
    const bool prints = event.output_comes && now_ < state_.over_since + HostsConfig::kOutputLimit;
    if ((event.output_waits || prints) && state_.end_by && !state_.stop_signal) {
      state_.end_by = now_ + HostsConfig::kEndGrace;
    }
    if (state_.look_at && *state_.look_at <= now_) {
      effects_.leaves_output = event.output_stands;
      state_.look_at = now_ + HostsConfig::kReaderLimit;
    }
  }

  HostsEffects Finish() {
    if (!state_.over) {
      LookAtClock();
      EndLate();
      EndWhenOver();
    }
    if (!state_.over) {
      FindFirst();
      StartMore();
    }
    return std::move(effects_);
  }

 private:
  void Say(LogLevel level, std::string text) {
    effects_.lines.emplace_back(level, std::move(text));
  }

  void Await(HostState& host, Duration limit) {
    host.limit = limit;
    host.deadline = now_ + limit;
  }

  // Whether the run still wants hosts that do not run.
  bool TakesHosts() const { return !state_.end_by; }

  void Signal(int number) {
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      if (state_.hosts[i].phase == HostPhase::kRunning) {
        effects_.signals.emplace_back(i, number);
      }
    }
  }

  // Only hosts that run are still waited for, and no longer than this.
  void EndBy(Duration limit) {
    state_.over_since = state_.end_by ? state_.over_since : now_;
    state_.end_by = std::min(state_.end_by.value_or(now_ + limit), now_ + limit);
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      if (state_.hosts[i].phase != HostPhase::kRunning) {
        Drop(i);
      }
    }
  }

  // For good.
  void Drop(std::size_t i) {
    HostState& host = state_.hosts[i];
    if (host.phase == HostPhase::kEnded) {
      return;
    }
    if (host.phase != HostPhase::kWaiting && host.phase != HostPhase::kFailed) {
      effects_.dropped.push_back(i);
    }
    host.phase = HostPhase::kFailed;
    host.deadline.reset();
  }

  void Fail(std::size_t i, const std::string& why) {
    HostState& host = state_.hosts[i];
    const bool lost = host.phase == HostPhase::kRunning;
    host.phase = HostPhase::kFailed;
    host.deadline.reset();
    ++host.failures;
    const std::string what = (lost ? "lost the connection to host " : "cannot reach host ") +
                             config_.names[i] + ": " + WithoutSlug(why) + " [host-unreachable]";
    const auto possible = static_cast<std::size_t>(std::ranges::count_if(
        state_.hosts, [](const HostState& other) { return other.reached || other.failures == 0; }));
    if (TakesHosts() && possible < config_.min_nodes) {
      Say(LogLevel::kError, what);
      GiveUp(possible);
    } else if (TakesHosts()) {
      const Duration pause =
          std::min<Duration>(HostsConfig::kFirstRetry * (1 << std::min(host.failures - 1, 5u)),
                             HostsConfig::kLongestRetry);
      host.deadline = now_ + pause;
      Say(host.failures == 1 ? LogLevel::kWarning : LogLevel::kDebug,
          Continue(what, "; trying again"));
    } else if (lost) {
      Say(LogLevel::kWarning, what);
    }
  }

  void GiveUp(std::size_t possible) {
    if (config_.names.size() > 1) {
      Say(LogLevel::kError, "the run needs " + std::to_string(config_.min_nodes) + " of " +
                                std::to_string(config_.names.size()) + " hosts, but only " +
                                std::to_string(possible) + " can be reached or " +
                                (possible == 1 ? "is" : "are") + " being tried");
    }
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      Drop(i);
    }
    state_.last_code = kExitUnavailable;
  }

  void SayWhoIsSlow() {
    std::string names;
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      HostState& host = state_.hosts[i];
      if (host.slow && *host.slow <= now_) {
        names += host.phase == HostPhase::kStarting ? " " + config_.names[i] : "";
        host.slow.reset();
      }
    }
    if (!names.empty()) {
      Say(LogLevel::kInfo, "waiting for an answer from" + names + ", up to " +
                               FormatDuration(HostsConfig::kGreetingLimit));
    }
  }

  void LookAtClock() {
    SayWhoIsSlow();
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      HostState& host = state_.hosts[i];
      if (!host.deadline || *host.deadline > now_) {
        continue;
      }
      host.deadline.reset();
      if (host.phase == HostPhase::kFailed) {
        host.phase = HostPhase::kWaiting;
      } else {
        effects_.dropped.push_back(i);
        Fail(i, "ddprun has not answered there within " + FormatDuration(host.limit));
      }
    }
  }

  void EndLate() {
    if (!state_.end_by || *state_.end_by > now_) {
      return;
    }
    if (!state_.terminated) {  // These have not heard of the run's end, and look for it in vain.
      Signal(SIGTERM);
      state_.terminated = true;
      state_.end_by = now_ + HostsConfig::kEndGrace;
      return;
    }
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      Drop(i);
    }
  }

  void EndWhenOver() {
    const bool lives = std::ranges::any_of(state_.hosts, [](const HostState& host) {
      return host.phase == HostPhase::kRunning ||
             (host.phase != HostPhase::kEnded && host.failures == 0 &&
              host.phase != HostPhase::kFailed);
    });
    if (lives) {
      return;
    }
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      Drop(i);  // Those that are tried again.
    }
    state_.over = true;
    state_.end_by.reset();
    state_.look_at.reset();
    const std::optional<int> known = state_.run_code ? state_.run_code : state_.last_code;
    effects_.exit_code = known                ? *known
                         : state_.stop_signal ? kExitSignalBase + *state_.stop_signal
                                              : kExitUnavailable;
  }

  void FindFirst() {
    for (std::size_t i = 0; config_.finds_first && !state_.first && i < state_.hosts.size(); ++i) {
      const HostPhase phase = state_.hosts[i].phase;
      if (phase == HostPhase::kReady) {
        state_.first = i;
      } else if (phase != HostPhase::kFailed) {
        return;  // It may still become the first host.
      }
    }
    for (std::size_t i = 0; i < state_.hosts.size(); ++i) {
      HostState& host = state_.hosts[i];
      if (host.phase == HostPhase::kReady && (state_.first || !config_.finds_first)) {
        host.phase = HostPhase::kRunning;
        host.reached = true;
        host.failures = 0;
        effects_.ordered.push_back(i);
      }
    }
  }

  void StartMore() {
    auto starting = static_cast<std::size_t>(std::ranges::count_if(
        state_.hosts, [](const HostState& host) { return host.phase == HostPhase::kStarting; }));
    for (std::size_t i = 0; i < state_.hosts.size() && starting < HostsConfig::kAtOnce; ++i) {
      HostState& host = state_.hosts[i];
      if (host.phase == HostPhase::kWaiting) {
        host.phase = HostPhase::kStarting;
        Await(host, HostsConfig::kGreetingLimit);
        host.slow = now_ + HostsConfig::kSlowGreeting;
        effects_.started.push_back(i);
        ++starting;
      }
    }
  }

  HostsState& state_;
  const HostsConfig& config_;
  const Time now_;
  HostsEffects effects_;
};

}  // namespace

HostsEffects Step(HostsState& state, const HostsConfig& config, const HostsEvent& event, Time now) {
  HostsStepContext step(state, config, now);
  std::visit([&](const auto& known) { step.On(known); }, event);
  return step.Finish();
}

std::optional<Time> NextWake(const HostsState& state) {
  std::optional<Time> wake = state.over ? std::nullopt : state.end_by;
  if (state.look_at && (!wake || *state.look_at < *wake)) {
    wake = state.look_at;
  }
  for (const HostState& host : state.hosts) {
    const bool starts = host.phase == HostPhase::kStarting;
    for (const std::optional<Time> time : {host.deadline, starts ? host.slow : std::nullopt}) {
      if (time && (!wake || *time < *wake)) {
        wake = time;
      }
    }
  }
  return wake;
}

}  // namespace ddprun
