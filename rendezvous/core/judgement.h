// Decides, once a world is drained, why it ended and how the run continues: the root cause, whether
// it uses a restart, when the next world may form, and the outcome of a run that ends.
//
// Pure. Judged at the end and not at the first bad news, since a dead node's peers fail first. One
// budget for the whole run: --max-restarts incidents, or as many within any --restart-window. A run
// whose workers report their steps and fail --crash-loop-limit times in a row without getting
// beyond the highest step ends with 76, since another restart would fail the same way; where no
// worker reports steps nothing is concluded from their absence. So does a run whose worlds end as
// often in a row with the same permanent error (permanent_error.h) before any progress. A drain for
// a change of membership uses no restart.
//
// Restarts without progress are spaced out, so that an outage of half a minute does not use up the
// budget within a second. A world makes progress by a step, by a collective, or by living for
// kALongLife. The world after the first failure without progress starts at once. From the second
// one on a world starts 2, 4, 8, ... s after the start of the last one, at most --restart-backoff
// after it. A worker that another process killed (SIGKILL) says nothing about the program, and
// never delays a restart.
//
//   | the first of these that is so                   | restart | the run ends             |
//   |-------------------------------------------------|---------|--------------------------|
//   | a request (`ddprun stop`, a signal) stops it    | no      | 130                      |
//   | a worker says "do not restart" (76 after hello) | no      | 76                       |
//   | a change of membership; no worker is to blame   | no      | -                        |
//   | all that failed ask to be started again (75     | no      | crash loop: 76           |
//   |   after hello), and the world before did not    |         |                          |
//   | else                                            | yes     | crash loop: 76; budget   |
//   |                                                 |         |   spent: the root's code |
//
// The last row but one is for workers that began, without a fault, from an outdated state, such as
// a snapshot in memory that is older than the checkpoints. It applies never twice in a row, and not
// to a run's first world, which has no world before it. So a worker that asks each time uses
// restarts.
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
  bool membership = false;  // A node was lost or leaves: uses no restart.
  bool interrupts = false;  // A node got SIGINT (Stop::interrupts).
  bool planned = false;     // It began as a planned stop: later failures are its consequence.
  // A new server found this world without some of its nodes, which may run a newer world. A worker
  // that the newer world's fence refuses says "do not restart" too.
  bool perhaps_stale = false;
  std::vector<Evidence> evidence;
  std::map<NodeKey, std::vector<std::size_t>> told;  // Indexes of each node's evidence.
  std::size_t bytes = 0;                             // Of the evidence.
  std::vector<std::string> spawn_failures;           // The first ones: "n1: cannot execute ...".
  std::optional<WorkerFailure> hang;  // Of cause kHang: the rank that lags, and the reason.
  bool hang_ends_run = false;         // The hang ends the run, whatever the budget.
};

struct Budget {
  std::uint32_t used = 0;          // Incidents of the whole run that used a restart.
  std::vector<Time> charged;       // Those within the restart window, oldest first.
  std::uint64_t highest = 0;       // The highest STEP of any worker so far.
  std::uint64_t reached = 0;       // `highest` when the last restart was used.
  bool told = false;               // At least one worker reports its steps.
  std::uint32_t stuck = 0;         // Incidents in a row without a higher step, the last included.
  bool may_excuse = false;         // The world before did not end by asking for a restart.
  Time formed;                     // When the current world was formed; long ago, if not known.
  bool worked = false;             // The current world has made progress.
  std::uint32_t fruitless = 0;     // Restarts used in a row whose worlds made no progress.
  std::string error;               // The permanent error of the last such world; empty: none.
  std::uint32_t same_error = 0;    // How many such worlds in a row have ended with it.
  std::optional<Time> next_start;  // No world is formed earlier.
};

inline constexpr Duration kALongLife{60'000};

struct Judgement {
  bool charged = false;               // It uses one restart of the budget.
  bool excused = false;               // All that failed ask to be started again: uses no restart.
  std::optional<Finish> outcome;      // Of the run, if it ends; else the next world gathers.
  std::optional<WorkerFailure> root;  // The failure that ended the world, if a worker's did.
};

// Keeps what a member of the world that is drained reports about its workers' ends. Texts beyond
// `most_bytes` in total are dropped.
void CollectEvidence(Drain& drain, const World& world, const NodeKey& key, const NodeReport& report,
                     std::size_t most_bytes, Time now);

// A world was formed.
void NoteStart(Budget& budget, Time now);

// A member of the current world reports the steps and collectives of its workers.
void NoteProgress(Budget& budget, const NodeReport& report);

// The first failure by time that is not collateral. If its error says that a peer's connection was
// lost, another failure within a second is the cause instead, else a worker that was stopped while
// it ended because of an exception. A death by signal within a second has
// priority, since peers of a killed worker often end first. But a worker that aborts after another
// one of its node has recorded an error mostly does so because of that error, so it has 0.1 s only.
// If all failures are collateral: the first one.
std::optional<WorkerFailure> RootCause(const std::vector<Evidence>& evidence);

// All workers that failed ask to be started again. False if one had to be killed: it may be the
// reason why the others ask.
bool AllAskForRestart(const Drain& drain);

// How a run ends that was stopped on request.
Finish StoppedOnRequest();

// Judges with `restarts_used` of `max_restarts`, without restart window, excuses and crash loops.
Judgement Judge(const Drain& drain, std::uint32_t restarts_used, std::uint32_t max_restarts);

// Judges a complete drain, and charges the incident if there is one.
Judgement JudgeWithinBudget(Budget& budget, const Drain& drain, const RunSpec& spec, Time now);

// "2 of 3", "2 of 3 within 1 h 0 min".
std::string RestartsInWords(const Budget& budget, const RunSpec& spec, Time now);

}  // namespace ddprun
