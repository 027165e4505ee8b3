// All that a coordinator knows of a run: its nodes and their world, what each feature remembers,
// and the phase. Questions that several features' answers settle together.
//
// Values. Changed by coordinator's Step alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/ended_run.h"
#include "rendezvous/core/growth.h"
#include "rendezvous/core/hang.h"
#include "rendezvous/core/judgement.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/roster.h"
#include "rendezvous/core/startup/startup.h"
#include "rendezvous/messages/lateness.h"

namespace ddprun {

// coordinator.h has the transitions.
enum class Phase { kRecovering, kGathering, kRunning, kDraining, kSucceeded, kFailed };

struct CoordinatorState : Roster {
  Phase phase = Phase::kGathering;
  Time since;         // Of the phase.
  Generation newest;  // Highest generation given, hosted or promised away.
  std::uint64_t worlds_formed = 0;
  std::optional<Time> last_call;
  std::optional<Time> claim_good;  // Until then; none: this server needs no claim.
  Duration claim_lease{0};         // As its claim's lateness asks for.
  WindowedMax lateness;            // Of this server, and of members on their way to it.
  std::optional<Drain> drain;
  std::optional<Finish> outcome;
  bool outcome_kept = false;           // The server's claim has it.
  std::uint64_t joins_before_end = 0;  // `joins` when this server saw the run end.
  std::optional<Time> wake;            // NextWake after the last Step: tells a late tick.
  Time stepped{};                      // The last Step's.
  Growth growth;
  Budget budget;
  HangWatch hang;
  Recovery recovery;
  Startups startups;
};

// A run whose server follows another one: Recovering.
CoordinatorState Succeed(Time now);
// A run that has ended, as the claim says.
CoordinatorState Restore(const EndedRun& run, Time now);

bool HasEnded(const CoordinatorState& state);

// Running or draining: there is a world, and workers may live.
bool IsActive(const CoordinatorState& state);

// The run has ended, or all of its nodes have left it in order: nowhere can workers of it run.
bool NoWorkersRemain(const CoordinatorState& state);

// The run is over and every node that must know it does: the server may forget the run.
bool IsOver(const CoordinatorState& state);

// It never had a world, and all nodes that came are lost: as if none had come.
bool NobodyHasBegun(const CoordinatorState& state);

// An outcome that a new server would not know is announced to no node.
bool MayTellOutcome(const CoordinatorState& state, const CoordinatorConfig& config);

// Its server must have a claim, and that is not known to be good: it forms no world.
bool ClaimIsInDoubt(const CoordinatorState& state, Time now);

// False for a report that a newer one of the same incarnation has overtaken: drop its call.
bool IsNewest(const CoordinatorState& state, const NodeReport& report);

Duration LeaseOf(const CoordinatorState& state, const CoordinatorConfig& config);

// A membership of this run that is neither lost nor refused.
bool HasReported(const CoordinatorState& state, const NodeKey& key);
// How long a new server collects reports. One without a claim knows of no predecessor's lateness.
Duration LeaseOfRecovery(const CoordinatorState& state, const CoordinatorConfig& config);

// How long memberships that are over, and outcomes, are kept for nodes that come late.
Duration RememberedFor(const CoordinatorState& state, const CoordinatorConfig& config);

// The number of nodes whose reports a server must have time for: a world's nodes, and before there
// is one those that would form it. Those that must come count from the start: the first of 10,000
// would else be given so little time that it is lost while the last ones join. Other nodes are left
// out, or outsiders could put off the moment at which a lost node is replaced.
std::size_t NodesThatCount(const CoordinatorState& state);

// How many nodes the world has that is looked for; 0: none is known, or it was found.
std::size_t NodesToRecover(const CoordinatorState& state);

// When a run without enough nodes fails. A pause between restarts takes nothing from their time.
Time EndOfGathering(const CoordinatorState& state);

Time EndOfRecovery(const CoordinatorState& state, const CoordinatorConfig& config);

// When nodes that have to stop are lost: a kill takes its time, however short a lease. `saving`: of
// those whose workers have the shutdown timeout after a failure or loss too.
Time EndOfDrain(const CoordinatorState& state, const CoordinatorConfig& config, bool saving);

// The bytes that the run holds in memory.
std::size_t BytesOf(const CoordinatorState& state);

std::string Describe(Phase phase);

}  // namespace ddprun
