// The messages between nodes and the coordinator: a node's report, the coordinator's directive.
//
// Plain values; nothing here is sent or decided. A report says everything that the node is and
// promises, a directive everything it should do now, so either may be lost, repeated or overtaken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/endpoint.h"
#include "common/exit_status.h"
#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/messages/host_fact.h"
#include "rendezvous/messages/limits.h"
#include "rendezvous/messages/rank_details.h"
#include "rendezvous/messages/run_event.h"
#include "rendezvous/messages/run_spec.h"

namespace ddprun {

// ---- A node's part in one generation. Never the list of all nodes: that would be N^2 bytes. ----
struct Placement {
  Term term;
  Generation generation;
  WorldId world_id;
  std::uint32_t group_rank = 0;
  std::uint32_t group_size = 1;
  std::uint32_t first_rank = 0;  // Global rank of the node's local rank 0.
  std::uint32_t world_size = 1;
  std::uint32_t role_first_rank = 0;
  std::uint32_t role_world_size = 1;
  Endpoint store;  // Hosted by the agent of group rank 0.
  std::uint32_t restarts_used = 0;
  bool operator==(const Placement&) const = default;
};

// ---- Directives ----
// Enums that are sent have the numbers of proto/*.proto, where 0 is none.
enum class WaitFor {
  kNodes = 1,         // Fewer than min_nodes are here.
  kLastCall = 2,      // Enough are here; more may come until the deadline.
  kDrain = 3,         // Other nodes are still stopping the last generation.
  kPeers = 4,         // Own workers have finished; those of other nodes have not.
  kSpare = 5,         // The world is complete without this node.
  kSettling = 8,      // The world grows soon; others that come now are taken along.
  kHeldBack = 9,      // Was lost too often of late to make the world restart for it.
  kNoGrowth = 10,     // There is room, but the run does not grow (--scale-up=never).
  kFinishing = 11,    // There is room, but workers have finished already: too late to join.
  kEarlierSelf = 6,   // An earlier membership of the same node is not over yet.
  kRecovery = 7,      // The server is new and collects reports.
  kClaim = 13,        // Enough are here, but the server may have lost its claim to serve.
  kOutcomeKept = 12,  // The server's claim does not have the outcome yet.
  kRoom = 14,         // The server cannot remember one more node of this run.
  kCheck = 15,        // A node's check (--node-check) has given no verdict yet.
  kUnfit = 16,        // This node's check (--node-check) refuses it.
  kBackoff = 17,      // The workers failed again and again without progress (--restart-backoff).
};

struct WaitReason {
  WaitFor what = WaitFor::kNodes;
  std::uint32_t have = 0;
  std::uint32_t need = 0;             // min_nodes.
  std::uint32_t want = 0;             // max_nodes.
  std::vector<std::string> missing;   // At most kMaxNamed node ids.
  std::optional<Duration> remaining;  // Until the coordinator continues or gives up.
  std::uint32_t losses = 0;           // kHeldBack: of this node; kBackoff: failures in a row.
  Duration span{0};                   // kHeldBack: the losses were within this time.
  std::vector<std::string> unfit;     // Nodes that are, "n0 (why)", at most kMaxNamed; or why.
  bool operator==(const WaitReason&) const = default;
};

enum class StopCause {
  kFailure = 1,   // A worker failed somewhere.
  kNodeLost,      // Another node was lost.
  kDeclaredLost,  // This node was declared lost: draw a new incarnation.
  kScaleUp,
  kLeave,           // A node leaves on request.
  kOperator,        // A request stops the run: `ddprun stop`, or a signal to one of its nodes.
  kHang = 20,       // Workers make no progress: take their stacks, then kill them.
  kSuperseded = 7,  // The workers belong to a world that is not the current one.
};
// Planned stops give workers the shutdown timeout, so that checkpoints finish.
bool IsPlanned(StopCause cause);

// The details of a failed worker, for people. They decide only which worker is named as the cause
// (rendezvous/core/judgement.h), and whether it failed with the same error again.
struct FailureDetails {
  std::int64_t unix_ms = 0;  // When it failed, by its node's wall clock; 0: unknown.
  std::string error_file;    // Its path on that node; empty: none, or none that stays.
  std::string message;       // "ValueError: boom", from the error file.
  std::string traceback;     // From the error file; where it is long, its end.
  bool operator==(const FailureDetails&) const = default;
};
// As a message: of a worker that the kernel killed.
inline constexpr const char* kMemoryRanOut = "memory ran out: the kernel killed it";

struct WorkerFailure {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  ExitStatus status;
  bool said_hello = false;     // READY=1 came on the notify socket: 75 and 76 have their meaning.
  bool stopped_by_us = false;  // It ended after the agent had begun to stop it.
  Duration after{0};           // Since the first failure of this node's generation.
  bool recorded = false;       // It failed when its error file says so, not only when it ended.
  std::string host;
  std::string last_lines;    // The end of its stderr, at most kMaxLastLines bytes.
  std::string hang;          // Why it counts as hung; empty: it ended by itself, or was stopped.
  bool nobody_lags = false;  // A hang of all: this rank stands for them, it is not to blame.
  FailureDetails details;
  bool operator==(const WorkerFailure&) const = default;
};

// Stopped by us before it failed, or "restart me" after hello: not a cause of its own.
bool IsCollateral(const WorkerFailure& failure);

enum class Ending {
  kSucceeded = 1,
  kFailed,
  kLeft,     // This node left on request; the run may continue.
  kRefused,  // This node cannot be part of the run (exit 2).
  kEnded,    // The run was over before this node came.
};

struct Wait {
  WaitReason reason;
  bool operator==(const Wait&) const = default;
};
struct Run {
  Placement placement;
  bool operator==(const Run&) const = default;
};
struct Stop {
  Generation generation;  // Promise never to run this one or an earlier one.
  WorldId world_id;
  StopCause cause = StopCause::kFailure;
  bool interrupts = false;  // The workers get SIGINT, as those of the node that got it (Ctrl-C).
  bool operator==(const Stop&) const = default;
};
struct Finish {
  Ending ending = Ending::kSucceeded;
  int exit_code = 0;
  std::string text;                   // One sentence for people.
  std::optional<WorkerFailure> root;  // The root cause of a failed run.
  bool gave_up = false;               // A failed attempt is not repeated.
  bool operator==(const Finish&) const = default;
};
using Directive = std::variant<Wait, Run, Stop, Finish>;

// Without a Wait's reason and a Finish's texts: an echo is kept so while its call is parked.
Directive WithoutWords(const Directive& directive);

// Equal without words: reasons are refreshed once per poll period, not pushed.
bool SameDirective(const Directive& a, const Directive& b);

// ---- Reports ----
// From where it is known how far a worker is, the best first.
enum class ProgressSource : std::uint8_t {
  kTold,         // Its own word: STEP and PHASE.
  kPrinted,      // The steps that it prints (--progress-from). Often one rank does, and not at each
                 // step.
  kCollectives,  // How many collectives it has begun: torch's count.
};
// The phase of a worker of kCollectives that waits in one, or for the others to join;
inline constexpr const char* kInCollective = "collective";
// of one that does not join; and of one that was heard of before its first one and not since.
// of one that has not begun within --start-timeout. Others have none.
inline constexpr const char* kBeforeJoining = "start";
inline constexpr const char* kUnheard = "unheard";
inline constexpr const char* kNotBegun = "not begun";

// Workers of one node that are equally far. Only workers that still run, and said hello or have
// another source of progress, are counted anywhere.
struct ProgressGroup {
  std::uint64_t step = 0;
  std::string phase;             // May be empty.
  std::uint32_t first_rank = 0;  // The lowest of them.
  std::uint32_t count = 1;
  std::uint32_t late = 0;  // How many made no progress for longer than they may (--hang-timeout).
  Duration allowed{0};     // How long that was, for people.
  ProgressSource source = ProgressSource::kTold;  // Of `step`.
  bool operator==(const ProgressGroup&) const = default;
};

// How soon a directive was carried out, by the node's own clock; bounded by nothing but that.
struct StartTimings {
  std::optional<Duration> detect;   // From the first end of a worker that it noticed to its report.
  std::optional<Duration> started;  // From its Run directive until all its workers are started.
  // From its Run directive until all workers have their state back (RESUME).
  std::optional<Duration> restored;
  // From its Run directive until all workers have taken a step beyond that state (STEP).
  std::optional<Duration> stepped;
  bool operator==(const StartTimings&) const = default;
};

enum class Hosting { kNothing = 1, kWorkers, kStopping };
enum class Outcome {
  kNone = 1,   // No generation has ended on this node.
  kSucceeded,  // Every worker exited 0.
  kFailed,
  kStopped,  // Stopped by us before it ended by itself.
  kSpawnFailed,
};
enum class Leaving { kNo = 1, kLeave, kStopRun };

// The facts of a node that last as long as it does.
struct NodeIdentity {
  RunId run_id;
  NodeId node;
  std::string host;  // For people, and for the order of ranks.
  RunSpec spec;
  std::optional<std::uint32_t> node_rank;  // --node-rank, where ranks are explicit.
  std::uint32_t workers = 1;               // Of this node: --nproc-per-node.
  std::uint32_t first_local_rank = 0;      // Other agents of the machine have those before.
  std::string role = "default";
  Endpoint page;               // Where it answers browsers (--http-listen); port 0: nowhere.
  std::uint32_t requeues = 0;  // How often the scheduler started the job again; for people.
  bool operator==(const NodeIdentity&) const = default;
};

// The present state of a node, and its promises.
struct NodeStanding {
  Incarnation incarnation;
  Incarnation former_incarnation;  // Of this process, until it was declared lost; 0: none.
  std::uint64_t sequence = 0;      // Of the newest call. Grows per incarnation; lower are dropped.
  Term term;                       // Of the server last heard; 0: none.
  std::int64_t beat = 0;           // The last reply's beat, returned.
  std::optional<Directive> echo;   // The directive last received.
  Endpoint store;                  // A bound port offered for the next generation.

  std::optional<Placement> placement;   // Of the workers hosted now, or last.
  Outcome outcome = Outcome::kNone;     // Of that placement, once it has ended.
  std::vector<WorkerFailure> failures;  // Of that placement, first one first.
  std::string spawn_failure;            // The system's message; empty: none.
  Generation floor;                     // Will never run this one or an earlier one.
  std::uint32_t restarts_used = 0;      // As last received.
  std::uint32_t unkillable = 0;         // Workers that outlived SIGKILL.
  Leaving leaving = Leaving::kNo;
  bool interrupted = false;  // It leaves because of SIGINT.
  bool saving = false;       // Its workers have the shutdown timeout, not the stop grace.
  bool operator==(const NodeStanding&) const = default;
};

struct NodeReport : NodeIdentity, NodeStanding {
  Hosting hosting = Hosting::kNothing;
  std::optional<std::uint32_t> hung_rank;      // The lowest rank here that is late.
  std::uint64_t progress = 0;                  // Highest STEP of a worker.
  std::vector<ProgressGroup> progress_groups;  // The furthest behind first.
  StartTimings start_timings;                  // Of that placement.
  RankDetails rank_details;                    // Of its workers; kept for people alone.
  bool starting = false;           // Its workers' start lasts: perhaps none is there yet.
  bool checking = false;           // This machine is looked at: it may turn out to be unfit.
  std::string unfit;               // Why no world may have it; empty: it may be.
  HostFacts facts;                 // Of its machine, kMaxFacts at most; kept for people alone.
  std::uint32_t ended_well = 0;    // Workers of that placement; the others still run.
  std::int64_t job_ends_unix = 0;  // When the job ends: seconds since 1970; 0: not known.
  std::string addresses;         // Of this node, "10.0.0.2,fd00::2"; empty: not known, or too many.
  EventMark events_seen;         // The newest event of the run that this node keeps.
  std::vector<RunEvent> events;  // The events that a new server has said it lacks.
  std::string seen_at;  // The server's own word: from where its calls come; empty: from here.
  bool operator==(const NodeReport&) const = default;
};

// No world may have it, or it is not known yet.
inline bool IsUnfit(const NodeReport& report) {
  return report.checking || !report.unfit.empty();
}

// Its machine lacks what its workers need, so it has started none and never will. `unfit` says
// what.
inline bool CannotStart(const NodeReport& report) {
  return !report.unfit.empty() && report.outcome == Outcome::kSpawnFailed && !report.placement;
}

struct SyncReply {
  Directive directive;
  std::int64_t beat = 0;        // The server's own steady time, microseconds; returned as is.
  Duration lease{3'000};        // Silence after which a node is lost.
  Duration poll_period{1'000};  // How long the server parks a call.
  Term term;
  std::string peers;  // With Run, for group rank 0: the addresses of the world's nodes, as they are
                      // now; empty: not known. No part of the directive, so never echoed.
  std::vector<RunEvent>
      events;             // After events_seen, to be kept for the next server; a few at once.
  EventMark events_kept;  // The newest of an earlier term that this node has sent.
  std::optional<ClockOffset> clock;  // The channel's own word, never sent.
  bool operator==(const SyncReply&) const = default;
};

}  // namespace ddprun
