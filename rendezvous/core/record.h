// Decides what a journal keeps of a run and when it is written anew.
//
// Pure. A record is the whole of what must survive, so the newest one is enough. Generations are
// reserved in blocks and early: forming a world never waits for a disk. Only the outcome does: it
// is told when it can no longer be forgotten.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/core/world.h"

namespace ddprun {

inline constexpr std::uint64_t kReservedBlock = 100;  // Generations.

// What a journal keeps of a run: enough for a new server to go on, together with the reports.
struct RunRecord {
  RunId run_id;
  std::optional<RunShape> shape;
  Generation reserved;  // No generation above it was ever given.
  std::uint32_t restarts_used = 0;
  std::optional<World> world;  // Members as they were formed.
  std::optional<Finish> outcome;
  bool operator==(const RunRecord&) const = default;
};

// What is left of a run that has ended: how, for a node of it that comes late.
struct EndedRun {
  RunId run_id;
  Generation newest;  // Highest generation given, hosted or promised away.
  Finish outcome;     // As much of its words as must not be lost.
  bool operator==(const EndedRun&) const = default;
};

// What outlives the run's own state.
EndedRun ToRemember(const RunId& run_id, Generation newest, const Finish& outcome);

// In place of what was known of the same run; the oldest go where there are more than `most`.
void Remember(std::vector<EndedRun>& ended, const EndedRun& run, std::size_t most);

// Where two know something of the same run, the later one counts.
void Merge(std::vector<EndedRun>& ended, const std::vector<EndedRun>& others, std::size_t most);

// nullptr: no such run.
const EndedRun* FindEnded(const std::vector<EndedRun>& ended, const RunId& run_id);

// Its node has been told something by a server of the run that has ended, and nothing of a later
// run of that name.
bool IsOfEnded(const EndedRun& run, const NodeReport& report);

// The run as it was: all that come are told how it ended.
RunRecord RecordOf(const EndedRun& run);

// To be put on disk, off the loop; Persisted answers. Only with a journal, and never waited for on
// the way to the next world.
struct Persist {
  std::uint64_t number = 0;
  RunRecord record;
};

// A run's records so far.
struct Records {
  Generation reserved;           // As recorded; generations stay below it.
  std::uint64_t asked = 0;       // For so many.
  std::uint64_t kept = 0;        // Known to be on disk.
  std::uint64_t of_outcome = 0;  // The outcome is told when this one is kept.
};

// What of a run a record would have now; refers to it.
struct RunFacts {
  const RunId& run_id;
  const std::optional<RunShape>& shape;
  Generation newest;  // Highest generation given, hosted or promised away.
  std::uint32_t restarts_used = 0;
  const std::optional<World>& world;
  const std::optional<Finish>& outcome;
};

// What a new record is needed for, if it changes.
struct RecordMark {
  bool shape = false;
  Generation reserved;
  std::uint32_t restarts_used = 0;
  std::optional<WorldId> world;
  bool outcome = false;
  bool operator==(const RecordMark&) const = default;
};
RecordMark MarkOf(const Records& records, const RunFacts& facts);

// After a Step of a run that has a journal: reserves generations and asks for a record if one is
// due.
std::optional<Persist> RecordIfChanged(Records& records, const RunFacts& facts,
                                       const RecordMark& before);

// True: everybody may hear the outcome from now on.
bool OnPersisted(Records& records, std::uint64_t number);

// Of a run that has a journal: nobody hears of an outcome that a new server would not know.
inline bool OutcomeIsKept(const Records& records) {
  return records.kept >= records.of_outcome;
}

}  // namespace ddprun
