// Decides which nodes train together, and when all of them must stop. One state per run.
//
// Pure: the same state, event and time always give the same result. No I/O, no clock, no threads,
// no logging; the driver carries out what Step returns and asks NextWake for the next moment at
// which time alone can change anything. Never tells two nodes different things about one world,
// and never forms a world while a node of the last one might still run it.
//
//   Recovering --every rank of the newest world has reported, or a lease is over--> recovery.h
//   Gathering --max are ready; or all of the last world and min; or last call over--> Running
//   Gathering --join timeout-----------------------------------------------------> Failed
//   Running   --a worker failed, a node was lost or leaves, the world grows-------> Draining
//   Running   --every node succeeded----------------------------------------------> Succeeded
//   Draining  --every node promised not to run this generation, or is lost: judge-> Gathering
//   Draining  --judge: budget spent, stop requested, a worker said "do not restart"-> Failed
//
// A server that no other one preceded starts in Gathering. recovery.h says how a new server comes
// back to a run that continues.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "rendezvous/core/config.h"
#include "rendezvous/core/control.h"
#include "rendezvous/core/directives.h"
#include "rendezvous/core/state.h"
#include "rendezvous/messages/messages.h"
#include "rendezvous/messages/run_event.h"

namespace ddprun {

// ---- Events ----
struct Reported {
  NodeReport report;
};
// The call that carried a report has ended: it was answered, or cancelled by a closed connection.
struct CallEnded {
  NodeId node;
  Incarnation incarnation;
  std::uint64_t sequence = 0;
  bool cancelled = false;
};
struct Tick {};
// The claim has the run's outcome, or cannot be written.
struct OutcomeKept {};
// This server's claim (core/failover/failover.h) is good until a time. After it another server may
// have replaced this one: its workers continue, but it forms no world. Never fed to a server that
// needs no claim.
struct ClaimGood {
  Time until;
  Duration lease{0};  // The lease that slow writes of the claim need; no node is lost sooner.
  bool operator==(const ClaimGood&) const = default;
};
using CoordinatorEvent =
    std::variant<Reported, CallEnded, Tick, OutcomeKept, Controlled, ClaimGood>;

// ---- Effects ----
struct CoordinatorEffects {
  std::vector<RunEvent> events;  // Without number and time, which the driver sets.
  bool ended = false;  // The run ended in this step: keep its outcome, then feed OutcomeKept.
  // Nodes that write evidence of their workers, because these hang but are not stopped.
  std::vector<NodeId> evidence;
};

CoordinatorEffects Step(CoordinatorState& state, const CoordinatorConfig& config,
                        const CoordinatorEvent& event, Time now);

}  // namespace ddprun
