// Decides what a journal keeps of a run and when it is written anew.
//
// Pure. A record is the whole of what must survive, so the newest one is enough. Generations are
// reserved in blocks and early: forming a world never waits for a disk. Only the outcome does: it
// is told when it can no longer be forgotten.
#pragma once

#include <optional>

#include "rendezvous/core/coordinator.h"

namespace ddprun {

// A run as a new server finds it in its journal: Recovering, or at its end.
CoordinatorState Restore(const RunRecord& record, Time now);

// What a new record is needed for, if it changes.
struct RecordMark {
  bool shape = false;
  Generation reserved;
  std::uint32_t restarts_used = 0;
  std::optional<WorldId> world;
  bool outcome = false;
  bool operator==(const RecordMark&) const = default;
};
RecordMark MarkOf(const CoordinatorState& state);

// After a Step: reserves generations and asks for a record if one is due.
std::optional<Persist> RecordIfChanged(CoordinatorState& state, const CoordinatorConfig& config,
                                       const RecordMark& before);

void OnPersisted(CoordinatorState& state, std::uint64_t number);

// Nobody hears of an outcome that a new server would not know.
bool MayTellOutcome(const CoordinatorState& state, const CoordinatorConfig& config);

inline constexpr std::uint64_t kReservedBlock = 100;  // Generations.

}  // namespace ddprun
