// For the tests of the coordinator: nodes that say what a test wants them to, one line per event.
//
// A Node is a report that is edited and sent again with the next sequence number; a Scenario is one
// run's coordinator, whose invariants hold after each step. Neither decides anything.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/testing/invariants.h"

namespace ddprun {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

inline Time At(Duration since_start) {
  return Time{std::chrono::seconds(1'000) + since_start};
}

inline WorkerFailure Failure(ExitStatus status, Duration after = Duration{0}) {
  WorkerFailure failure;
  failure.status = status;
  failure.after = after;
  failure.host = "host";
  return failure;
}

struct Scenario {
  CoordinatorState state;
  CoordinatorConfig config;
  std::vector<RunEvent> events;  // Of the last input.
  std::vector<RunEvent> told;    // All.

  Scenario() {
    state.run_id = "run";
    config.term = {1};
    // Scenarios count their times from it; nothing lengthens it.
    config.base_lease = config.long_lease = Duration{3'000};
  }
  bool ended = false;            // By the last event.
  std::vector<NodeId> evidence;  // The nodes that had to keep it; of all.
  // A server that has heard nothing yet takes the place of the first one.
  void Restart() {
    config.term = {2};
    state = {};
    state.run_id = "run";
  }
  void Feed(const CoordinatorEvent& event, Time now) {
    CoordinatorEffects effects = Step(state, config, event, now);
    events = std::move(effects.events);
    told.insert(told.end(), events.begin(), events.end());
    ended = effects.ended;
    evidence.insert(evidence.end(), effects.evidence.begin(), effects.evidence.end());
    EXPECT_EQ(BrokenInvariant(state, config, now), std::nullopt);
  }
  void Tick(Time now) { Feed(ddprun::Tick{}, now); }
  // Ticks whenever the coordinator asks to be woken, as a driver does. Nodes that say nothing lose
  // their leases meanwhile.
  void Pass(Time until) {
    for (auto wake = NextWake(state, config); wake && *wake <= until;
         wake = NextWake(state, config)) {
      Tick(*wake);
    }
  }
  std::vector<RunEvent> Events(const std::string& kind) const {
    std::vector<RunEvent> found;
    std::copy_if(told.begin(), told.end(), std::back_inserter(found),
                 [&](const RunEvent& event) { return event.kind == kind; });
    return found;
  }
  bool Said(const std::string& words) const {
    for (const RunEvent& event : events) {
      if (event.text.find(words) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
};

struct Node {
  Scenario& scenario;
  NodeReport report;

  Node(Scenario& of, const std::string& name, const RunSpec& spec, std::uint64_t incarnation = 1)
      : scenario(of) {
    report.run_id = "run";
    report.node = name;
    report.host = name;
    report.incarnation = {incarnation};
    report.spec = spec;
    report.store = {name, 1234};
  }

  Directive Told(Time now) const {
    return DirectiveFor(scenario.state, scenario.config, report.node, report.incarnation, now);
  }
  template <class D>
  bool IsTold(Time now) const {
    return std::holds_alternative<D>(Told(now));
  }
  WaitReason Waits(Time now) const { return std::get<Wait>(Told(now)).reason; }
  // Sends the report as it is now.
  Node& Says(Time now) {
    ++report.sequence;
    scenario.Feed(Reported{report}, now);
    return *this;
  }
  // Has had the server's answer of `now`.
  Node& Hears(Time now) {
    report.term = scenario.config.term;
    report.beat = now.time_since_epoch().count();
    report.echo = Told(now);
    return *this;
  }
  Node& Hosts(Time now) {
    report.placement = std::get<Run>(Told(now)).placement;
    report.hosting = Hosting::kWorkers;
    report.outcome = Outcome::kNone;
    report.failures.clear();
    return Hears(now).Says(now);
  }
  Node& Ends(Outcome outcome, std::vector<WorkerFailure> failures, Time now) {
    report.hosting = Hosting::kNothing;
    report.outcome = outcome;
    report.failures = std::move(failures);
    report.floor = std::max(report.floor, report.placement->generation);
    return Hears(now).Says(now);
  }
  void Closes(Time now, bool cancelled = true) {
    scenario.Feed(CallEnded{report.node, report.incarnation, report.sequence, cancelled}, now);
  }
};

// All report, and host the world of their directive.
template <class... Nodes>
void FormWorld(Time now, Nodes&... nodes) {
  (nodes.Says(now), ...);
  (nodes.Hosts(now), ...);
}

}  // namespace ddprun
