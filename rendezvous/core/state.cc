#include "rendezvous/core/state.h"

#include <algorithm>

namespace ddprun {

CoordinatorState Succeed(Time now) {
  CoordinatorState state;
  state.since = now;
  state.phase = Phase::kRecovering;
  state.recovery.entered = true;
  state.budget.may_excuse = true;  // How the last world ended is not known.
  return state;
}

CoordinatorState Restore(const EndedRun& run, Time now) {
  CoordinatorState state;
  state.run_id = run.run_id;
  state.since = now;
  state.newest = run.newest;
  const bool succeeded = run.outcome.ending == Ending::kSucceeded;
  state.phase = succeeded ? Phase::kSucceeded : Phase::kFailed;
  state.outcome = run.outcome;
  state.outcome_kept = true;
  return state;
}

bool HasEnded(const CoordinatorState& state) {
  return state.phase == Phase::kSucceeded || state.phase == Phase::kFailed;
}

bool IsActive(const CoordinatorState& state) {
  return state.phase == Phase::kRunning || state.phase == Phase::kDraining;
}

bool NoWorkersRemain(const CoordinatorState& state) {
  return HasEnded(state) ||
         (state.phase != Phase::kRecovering &&
          std::all_of(state.nodes.begin(), state.nodes.end(),
                      [](const auto& entry) { return entry.second.acknowledged; }));
}

bool IsOver(const CoordinatorState& state) {
  return HasEnded(state) && state.index.served == 0;
}

bool NobodyHasBegun(const CoordinatorState& state) {
  return state.phase == Phase::kGathering && state.worlds_formed == 0 && !state.world &&
         state.index.served == 0;
}

bool MayTellOutcome(const CoordinatorState& state, const CoordinatorConfig& config) {
  return !config.claims || state.outcome_kept;
}

bool ClaimIsInDoubt(const CoordinatorState& state, Time now) {
  return state.claim_good && now > *state.claim_good;
}

bool IsNewest(const CoordinatorState& state, const NodeReport& report) {
  const auto found = state.nodes.find({report.node, report.incarnation});
  return found == state.nodes.end() || report.sequence > found->second.report.sequence;
}

Duration LeaseOf(const CoordinatorState& state, const CoordinatorConfig& config) {
  return std::max({config.base_lease,
                   config.lease_per_node * static_cast<Duration::rep>(NodesThatCount(state)),
                   state.claim_lease, Value(state.lateness)});
}

Duration LeaseOfRecovery(const CoordinatorState& state, const CoordinatorConfig& config) {
  const Duration lease = LeaseOf(state, config);
  return state.claim_good ? lease : std::max(lease, config.long_lease);
}

Duration RememberedFor(const CoordinatorState& state, const CoordinatorConfig& config) {
  return kLeasesRemembered * std::max(LeaseOf(state, config), config.long_lease);
}

std::size_t NodesThatCount(const CoordinatorState& state) {
  if (!state.spec) {
    return 0;
  }
  const std::size_t world = state.world ? state.world->members.size() : 0;
  const bool gathers = state.phase == Phase::kGathering;
  const std::size_t next =
      gathers ? std::min(state.index.ready + state.index.held, state.spec->max_nodes) : 0;
  return std::max<std::size_t>({state.spec->min_nodes, NodesToRecover(state), world, next});
}

std::size_t NodesToRecover(const CoordinatorState& state) {
  const bool looking = state.phase == Phase::kRecovering && state.recovery.newest;
  return looking ? state.recovery.newest->group_size : 0;
}

Time EndOfRecovery(const CoordinatorState& state, const CoordinatorConfig& config) {
  return EndOfRecovery(state.recovery, state.spec, state.since, LeaseOfRecovery(state, config));
}

Time EndOfGathering(const CoordinatorState& state) {
  return std::max(state.since, state.budget.next_start.value_or(state.since)) +
         state.spec->join_timeout;
}

Time EndOfDrain(const CoordinatorState& state, const CoordinatorConfig& config, bool saving) {
  const Duration timeout = state.spec->shutdown_timeout;
  const Duration grace = IsPlanned(state.drain->cause) ? timeout
                         : saving                      ? std::max(timeout, config.stop_grace)
                                                       : config.stop_grace;
  return state.drain->began + grace + std::max(LeaseOf(state, config), config.long_lease);
}

std::size_t BytesOf(const CoordinatorState& state) {
  return state.index.bytes + state.recovery.bytes + (state.drain ? state.drain->bytes : 0);
}

std::string Describe(Phase phase) {
  switch (phase) {
    case Phase::kRecovering:
      return "recovering";
    case Phase::kGathering:
      return "gathering";
    case Phase::kRunning:
      return "running";
    case Phase::kDraining:
      return "draining";
    case Phase::kSucceeded:
      return "succeeded";
    case Phase::kFailed:
      return "failed";
  }
  return "";
}

bool HasReported(const CoordinatorState& state, const NodeKey& key) {
  const auto found = state.nodes.find(key);
  return found != state.nodes.end() && !found->second.lost && !found->second.refused;
}

}  // namespace ddprun
