// Decides who trains with whom, and when everybody must stop. One state per run.
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
// A server without a journal starts in Gathering. What brings a new server back into a run that
// goes on, from reports and from a journal, is told in recovery.h.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/core/messages.h"

namespace ddprun {

struct CoordinatorConfig {
  Term term;                          // This server's reign.
  std::uint64_t seed = 0;             // World ids are drawn from it.
  Duration base_lease{3'000};         // The lease is max(base, nodes * per node), so that 10,000
  Duration lease_per_node{9};         // nodes cost a few percent of a core.
  Duration disconnect_grace{200};     // Closed connection to lost; agents reconnect in 20-50 ms.
  Duration stop_grace{5'000};         // TERM to KILL after a failure or loss.
  Duration shutdown_timeout{30'000};  // TERM to KILL in a planned stop.
  Duration start_timeout{30'000};     // Told Run to hosting it.
  Duration settle{150};               // Arrivals closer than this make one restart,
  Duration settle_limit{1'000};       // which comes at most so long after the first of them.
  bool journal = false;               // Persist is carried out: no outcome is told before it is.
  std::size_t run_bytes = 64 << 20;   // What a run may hold, its world's members aside (keeping.h).
};

// ---- Events ----
struct Reported {
  NodeReport report;
};
// The call in which a report came has ended: answered, or cancelled by a closed connection.
struct CallEnded {
  NodeId node;
  Incarnation incarnation;
  std::uint64_t sequence = 0;
  bool cancelled = false;
};
struct Tick {};
// The record of this number, and all before it, are on disk or can never be.
struct Persisted {
  std::uint64_t number = 0;
};
// Only who holds a claim serves here (core/succession.h), and this one is good until then. Beyond
// it the server may be on the losing side of a split: what runs goes on, but it forms no world.
// Never fed to a server that needs no claim.
struct ClaimGood {
  Time until;
};
// What somebody allowed to (that is checked before) asks of the run: core/control.h.
enum class ControlVerb { kDrain, kStop };
struct Controlled {
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;  // Of kDrain.
};
using CoordinatorEvent = std::variant<Reported, CallEnded, Tick, Persisted, Controlled, ClaimGood>;

enum class NoticeLevel { kDetail, kInfo, kWarning };
struct Notice {
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;
  std::string reason = {};  // Not empty: anybody may cause many of these, and few are said.
  bool operator==(const Notice&) const = default;
};

// ---- State ----
enum class Phase { kRecovering, kGathering, kRunning, kDraining, kSucceeded, kFailed };

struct NodeKey {
  NodeId node;
  Incarnation incarnation;
  auto operator<=>(const NodeKey&) const = default;
};

// A node that was lost again and again waits before it may make a world restart.
struct Held {
  Time until;
  std::uint32_t losses = 0;
  Duration span{0};  // From the first of them to this arrival.
};

// A node's entries in the index, as last made.
struct Filed {
  std::optional<Time> due;
  std::optional<Time> forget;
  std::optional<Time> cancelled;
  bool ready = false;
  bool held = false;
  bool outsider = false;
  bool coming = false;
  bool served = false;
  std::size_t bytes = 0;
  bool operator==(const Filed&) const = default;
};

struct NodeState {
  NodeReport report;         // The newest, as far as it is kept (keeping.h).
  std::uint64_t joined = 0;  // Order of first contact.
  Time heard;                // Arrival of the newest report.
  Time expires;              // The lease's end.
  bool call_open = false;
  std::optional<Time> unconnected;     // Since when no call is open.
  std::optional<Time> cancelled;       // Since when, if its newest call was cancelled.
  bool lease_decides = false;          // Closed together with others: the grace does not count.
  bool lost = false;                   // Told to stop and to draw a new incarnation.
  std::optional<std::string> refused;  // Why it cannot be part of the run.
  bool acknowledged = false;           // Has echoed its Finish.
  bool asked_to_leave = false;         // By ddprun drain: as if its own report said so.
  bool waited = false;                 // Has said once that it stays.
  std::optional<Time> forget;          // Lost: remembered until then, so that it hears of it.
  std::optional<Held> held;
  Filed filed;
};

// What a walk over all nodes would tell, so that no event needs one; node_index.h keeps it.
struct NodeIndex {
  using Agenda = std::set<std::pair<Time, NodeKey>>;
  Agenda due;                     // When time alone can change what is thought of a node.
  Agenda forget;                  // When lost ones are forgotten.
  std::multiset<Time> cancelled;  // Closed connections of nodes that are not lost.
  std::uint32_t ready = 0;        // Could form a world and are not held back.
  std::uint32_t held = 0;         // Could form a world, but are held back.
  std::uint32_t outsiders = 0;    // Of the ready: not in the current world.
  std::uint32_t coming = 0;       // Belong to the run, but are not ready yet.
  std::uint32_t served = 0;       // Neither lost, nor told and acknowledged how the run ended.
  std::size_t bytes = 0;          // Of all.
  bool operator==(const NodeIndex&) const = default;
};

struct Member {
  NodeKey key;
  std::uint32_t workers = 0;
  std::uint32_t first_rank = 0;
  std::string role;
  std::uint32_t role_first_rank = 0;
  std::uint32_t role_size = 0;  // Workers of this role in the world.
  bool hosted = false;          // Has been seen hosting this world.
  bool succeeded = false;
  bool lost = false;
  std::optional<Time> fence;  // Lost, but its workers may run until then (--fence-after).
};

// Who of a world has not done what is waited for, by group rank.
struct RollCall {
  std::set<std::size_t> silent;      // Neither lost nor seen hosting the world.
  std::set<std::size_t> unfinished;  // Has not succeeded.
  std::set<std::size_t> undrained;   // Neither drained nor lost with its fence over.
  std::set<std::size_t> lost;
  bool operator==(const RollCall&) const = default;
};

struct World {
  Term term;
  Generation generation;
  WorldId id;
  std::vector<Member> members;            // In group rank order.
  std::map<NodeKey, std::size_t> places;  // Index in members.
  std::uint32_t size = 0;                 // Workers.
  Endpoint store;
  Time formed;
  RollCall roll;
};

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
  std::vector<Evidence> evidence;
  std::size_t bytes = 0;                    // Of the evidence.
  std::vector<std::string> spawn_failures;  // "n1: cannot execute ...": the first ones.
  std::optional<WorkerFailure> hang;        // Cause kHang: who lags, and why that is a hang.
};

// Somebody's workers make no progress; whose fault it is, is told by every member's next report.
struct HangEnquiry {
  Generation generation;
  std::set<NodeKey> unheard;  // Members that have not reported since.
};

// Nodes that came while a world runs, taken together; and who was lost when.
struct Growth {
  std::optional<Time> first;   // Of the arrivals not yet taken in.
  std::optional<Time> go;      // The world stops for them then.
  std::uint32_t arrivals = 0;  // That many were there when `go` was last put off.
  std::map<NodeId, std::vector<Time>> losses;
};

struct Budget {
  std::vector<Time> charged;  // Incidents within the restart window, oldest first.
  std::uint64_t highest = 0;  // STEP of any worker so far.
  std::uint64_t reached = 0;  // `highest` when the last incident was charged.
  bool told = false;          // Some worker tells its steps.
  std::uint32_t stuck = 0;    // Incidents in a row without progress, that one included.
};

// What a server that is new to a run has found out about the world that its nodes may still run.
struct Recovery {
  struct Place {
    NodeKey key;
    NodeReport report;  // As kept, and its failures. Stays when a node that knows the end is gone.
    // By the old server; what this one says since replaces the echo.
    std::optional<StopCause> told;
  };
  std::optional<Placement> newest;        // Of the newest world heard of; the shared part counts.
  std::map<std::uint32_t, Place> places;  // Group rank in it -> who has reported.
  std::size_t bytes = 0;                  // Of them.
  std::optional<World> recorded;          // The journal's last, as it was formed.
  bool begun = false;                     // Recovering has been entered once.
};

// What a journal keeps of a run: enough for a new server to go on, together with the reports.
struct RunRecord {
  RunId run_id;
  std::optional<RunShape> shape;
  Generation reserved;  // No generation above it was ever given.
  std::uint32_t restarts_used = 0;
  std::optional<World> world;  // Members as they were formed.
  std::optional<Finish> outcome;
};

struct CoordinatorState {
  RunId run_id;
  Phase phase = Phase::kGathering;
  Time since;                     // Of the phase.
  std::optional<RunShape> shape;  // The first report's.
  std::map<NodeKey, NodeState> nodes;
  NodeIndex index;
  Growth growth;
  Budget budget;
  std::optional<World> world;  // The current or last one.
  Generation newest;           // Highest generation given, hosted or promised away.
  std::uint32_t restarts_used = 0;
  std::uint64_t worlds_formed = 0;
  std::uint64_t joins = 0;
  std::uint64_t edition = 0;  // Moves when what others than the reporting node are told may change,
                              // so that a driver need not look at every parked call each time.
  std::optional<Time> last_call;
  std::optional<Time> claim_good;  // Until then; none: this server needs no claim.
  std::optional<Drain> drain;
  std::optional<HangEnquiry> hang_enquiry;
  std::optional<Finish> outcome;
  std::optional<Time> wake;  // NextWake after the last Step: tells a late tick.
  Time stepped{};            // The last Step's.
  Recovery recovery;
  Generation reserved;                // As recorded; generations stay below it.
  std::uint64_t records = 0;          // Asked for so far.
  std::uint64_t records_kept = 0;     // Known to be on disk.
  std::uint64_t record_of_outcome{};  // The outcome is told when this one is kept.
};

// ---- Effects ----
// To be put on disk, off the loop; Persisted answers. Only with a journal, and never waited for on
// the way to the next world.
struct Persist {
  std::uint64_t number = 0;
  RunRecord record;
};
struct CoordinatorEffects {
  std::vector<Notice> notices;
  std::optional<Persist> persist;
};

// ---- Decisions ----
CoordinatorEffects Step(CoordinatorState& state, const CoordinatorConfig& config,
                        const CoordinatorEvent& event, Time now);

// What a node should do now. Unknown nodes wait; so does one that hosts nothing and echoes its
// Finish: that answer is only the receipt of its acknowledgement.
Directive DirectiveFor(const CoordinatorState& state, const CoordinatorConfig& config,
                       const NodeId& node, Incarnation incarnation, Time now);

std::optional<Time> NextWake(const CoordinatorState& state, const CoordinatorConfig& config);

// False for a report that a newer one of the same incarnation has overtaken: drop its call.
bool IsNewest(const CoordinatorState& state, const NodeReport& report);

Duration LeaseOf(const CoordinatorState& state, const CoordinatorConfig& config);

// Whose reports a server must have time for: a world's nodes, and before there is one those that
// would form it. Those that must come count from the start: the first of 10,000 would else be given
// so little time that it is lost while the last ones join. Whoever else comes counts for nothing,
// or strangers could put off the moment at which a lost node is replaced.
std::size_t NodesThatCount(const CoordinatorState& state);

// The run is over and every node that must know it does: the server may forget the run.
bool IsOver(const CoordinatorState& state);

// Its server must have a claim, and that is not known to be good: it forms no world.
bool ClaimIsInDoubt(const CoordinatorState& state, Time now);

}  // namespace ddprun
