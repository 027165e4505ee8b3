// Decides, once a world is drained, what ended it and what follows: the root cause, whether the
// restart budget is charged, when the next world may form, and the outcome of a run that goes on no
// further.
//
// Pure. Judged at the end and not at the first bad news, since a dead node's peers fail first. One
// budget for the whole run: --max-restarts incidents, or as many within any --restart-window. A run
// whose workers tell their steps and fail --crash-loop-limit times in a row without getting beyond
// the highest step ends with 76, since another restart would fail the same way; where no worker
// tells steps nothing is concluded from their absence. So does a run whose worlds end as often in a
// row with the same permanent error (permanent_error.h) before any progress. Never charges a drain
// that was a change of membership.
//
// Restarts without progress are spaced out, so that an outage of half a minute does not use up the
// budget within a second. A world makes progress by a step, by a collective, or by living for
// kALongLife. The world after the first failure without progress starts at once. From the second
// one on a world starts 2, 4, 8, ... s after the start of the last one, at most --restart-backoff
// after it. A worker that another process killed (SIGKILL) says nothing about the program, and
// never delays a restart.
//
//   | the first of these that is so                   | charged | the run ends             |
//   |-------------------------------------------------|---------|--------------------------|
//   | an operator stops the run                       | no      | 130                      |
//   | a worker says "do not restart" (76 after hello) | no      | 76                       |
//   | a change of membership; nobody is to blame      | no      | -                        |
//   | all that failed ask to be started again (75     | no      | crash loop: 76           |
//   |   after hello), and the world before did not    |         |                          |
//   | else                                            | yes     | crash loop: 76; budget   |
//   |                                                 |         |   spent: the root's code |
//
// The last but one is of workers that began, through nobody's fault, from what counts no more, as
// a memory whose checkpoints have gone on without it. Never two in a row, and not a run's first
// world, which follows none: so a worker that asks each time spends the budget.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/world.h"

namespace ddprun {

struct Evidence {
  NodeKey key;
  WorkerFailure failure;
  Time when;  // Arrival of the node's first failure + `after`.
};

struct Drain {
  StopCause cause = StopCause::kFailure;
  Time began;
  bool membership = false;  // A node was lost or leaves: not charged.
  bool planned = false;     // So it began: later failures are its consequence.
  // Found by a new server without some of its nodes, which may run a newer one: whom that one's
  // checkpoints keep out says "do not restart" too.
  bool perhaps_stale = false;
  std::vector<Evidence> evidence;
  std::map<NodeKey, std::vector<std::size_t>> told;  // Where in it is what each node has said.
  std::size_t bytes = 0;                             // Of the evidence.
  std::vector<std::string> spawn_failures;           // "n1: cannot execute ...": the first ones.
  std::optional<WorkerFailure> hang;  // Cause kHang: who lags, and why that is a hang.
  bool hang_ends_run = false;         // It does, whatever the budget.
};

struct Budget {
  std::uint32_t used = 0;          // Incidents of the whole run.
  std::vector<Time> charged;       // Those within the restart window, oldest first.
  std::uint64_t highest = 0;       // STEP of any worker so far.
  std::uint64_t reached = 0;       // `highest` when the last incident was charged.
  bool told = false;               // Some worker tells its steps.
  std::uint32_t stuck = 0;         // Incidents in a row without progress, that one included.
  bool may_excuse = false;         // The world before this one ended otherwise than by asking.
  Time formed;                     // When the current world was formed; long ago, if not known.
  bool worked = false;             // The current world has made progress.
  std::uint32_t fruitless = 0;     // Charged incidents in a row whose worlds made no progress.
  std::string error;               // The permanent error of the last such world; empty: none.
  std::uint32_t same_error = 0;    // So many such worlds in a row have ended with it.
  std::optional<Time> next_start;  // No world forms earlier.
};

inline constexpr Duration kALongLife{60'000};

struct Judgement {
  bool charged = false;               // One restart of the budget.
  bool excused = false;               // All that failed ask to be started again: not charged.
  std::optional<Finish> outcome;      // The run ends with it; else the next world gathers.
  std::optional<WorkerFailure> root;  // What ended the world, if a worker did.
};

// What a member of the world that is drained says of its workers' ends. Texts of more than
// `most_bytes` in all are not kept.
void CollectEvidence(Drain& drain, const World& world, const NodeKey& key, const NodeReport& report,
                     std::size_t most_bytes, Time now);

// A world was formed.
void NoteStart(Budget& budget, Time now);

// A member of the current world reports the steps and collectives of its workers.
void NoteProgress(Budget& budget, const NodeReport& report);

// The first failure that is not collateral, by time; a death by signal within a second of it beats
// it, since peers of a killed worker often end first. One exception: who aborts after a worker of
// its own node had recorded an error most often does so because of that one. Where the first one
// recorded that a peer's connection was lost, another's failure within that second is the cause.
// All collateral: the first of all.
std::optional<WorkerFailure> RootCause(const std::vector<Evidence>& evidence);

// Nothing else has failed than workers that ask to be started again. Whom we had to kill may be why
// they ask.
bool AllAskForRestart(const Drain& drain);

// As if `restarts_used` of `max_restarts` were used: without a window, excuses and crash loops.
Judgement Judge(const Drain& drain, std::uint32_t restarts_used, std::uint32_t max_restarts);

// Judges the drain that is complete, and charges the incident if it is one.
Judgement JudgeWithinBudget(Budget& budget, const Drain& drain, const RunShape& shape, Time now);

// "2 of 3", "2 of 3 within 1 h 0 min".
std::string RestartsInWords(const Budget& budget, const RunShape& shape, Time now);

}  // namespace ddprun
