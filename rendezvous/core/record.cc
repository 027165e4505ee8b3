#include "rendezvous/core/record.h"

#include <algorithm>

#include "rendezvous/core/formation.h"

namespace ddprun {
namespace {

const std::optional<World>& WorldToKeep(const CoordinatorState& state) {
  return state.world ? state.world : state.recovery.recorded;
}

RunRecord RecordOf(const CoordinatorState& state) {
  RunRecord record{state.run_id,        state.shape,  state.reserved,
                   state.restarts_used, std::nullopt, state.outcome};
  if (!state.outcome) {
    record.world = WorldToKeep(state);  // Nobody runs it again after the end.
  }
  return record;
}

}  // namespace

CoordinatorState Restore(const RunRecord& record, Time now) {
  CoordinatorState state;
  state.run_id = record.run_id;
  state.since = now;
  state.shape = record.shape;
  state.newest = record.reserved;
  state.reserved = record.reserved;
  state.restarts_used = record.restarts_used;
  state.outcome = record.outcome;
  if (record.outcome) {
    const bool succeeded = record.outcome->ending == Ending::kSucceeded;
    state.phase = succeeded ? Phase::kSucceeded : Phase::kFailed;
    return state;
  }
  state.phase = Phase::kRecovering;
  state.recovery.begun = true;
  state.recovery.recorded = record.world;
  if (record.world) {
    state.recovery.newest = PlacementOf(state, *record.world, 0);
  }
  return state;
}

RecordMark MarkOf(const CoordinatorState& state) {
  const std::optional<World>& world = WorldToKeep(state);
  return {state.shape.has_value(), state.reserved, state.restarts_used,
          world ? std::optional(world->id) : std::nullopt, state.outcome.has_value()};
}

std::optional<Persist> RecordIfChanged(CoordinatorState& state, const CoordinatorConfig& config,
                                       const RecordMark& before) {
  if (!config.journal) {
    return std::nullopt;
  }
  if (state.newest.value + kReservedBlock / 2 > state.reserved.value) {
    state.reserved = {state.newest.value + kReservedBlock};
  }
  if (MarkOf(state) == before || !state.shape) {
    return std::nullopt;
  }
  ++state.records;
  if (state.outcome && !before.outcome) {
    state.record_of_outcome = state.records;
  }
  return Persist{state.records, RecordOf(state)};
}

void OnPersisted(CoordinatorState& state, std::uint64_t number) {
  const bool told = state.records_kept >= state.record_of_outcome;
  state.records_kept = std::max(state.records_kept, std::min(number, state.records));
  if (!told && state.records_kept >= state.record_of_outcome) {
    ++state.edition;  // Everybody may hear it now.
  }
}

bool MayTellOutcome(const CoordinatorState& state, const CoordinatorConfig& config) {
  return !config.journal || state.records_kept >= state.record_of_outcome;
}

}  // namespace ddprun
