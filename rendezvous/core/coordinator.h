// Decides who trains with whom, and when everybody must stop. One state per run.
//
// Pure: the same state, event and time always give the same result. No I/O, no clock, no threads,
// no logging; the driver carries out what Step returns and asks NextWake for the next moment at
// which time alone can change anything. Never tells two nodes different things about one world,
// and never forms a world while a node of the last one might still run it.
//
//   Gathering --max are ready; or all of the last world and min; or last call over--> Running
//   Gathering --join timeout-----------------------------------------------------> Failed
//   Running   --a worker failed, a node was lost or leaves, the world may grow----> Draining
//   Running   --every node succeeded----------------------------------------------> Succeeded
//   Draining  --every node promised not to run this generation, or is lost: judge-> Gathering
//   Draining  --judge: budget spent, stop requested, a worker said "do not restart"-> Failed
//
// A server without history starts in Gathering; recovery from reports is not this file's yet: a
// report that hosts a world this server never formed is told to stop, and generations stay above
// it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/messages.h"

namespace ddprun {

struct CoordinatorConfig {
  Term term;                          // This server's reign.
  std::uint64_t seed = 0;             // World ids are drawn from it.
  Duration base_lease{3'000};         // The lease is max(base, nodes * per node), so that 10,000
  Duration lease_per_node{6};         // nodes cost a few percent of a core.
  Duration disconnect_grace{200};     // Closed connection to lost; agents reconnect in 20-50 ms.
  Duration stop_grace{5'000};         // TERM to KILL after a failure or loss.
  Duration shutdown_timeout{30'000};  // TERM to KILL in a planned stop.
  Duration start_timeout{30'000};     // Told Run to hosting it.
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
using CoordinatorEvent = std::variant<Reported, CallEnded, Tick>;

enum class NoticeLevel { kDetail, kInfo, kWarning };
struct Notice {
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;
  bool operator==(const Notice&) const = default;
};

// ---- State ----
enum class Phase { kGathering, kRunning, kDraining, kSucceeded, kFailed };

struct NodeKey {
  NodeId node;
  Incarnation incarnation;
  auto operator<=>(const NodeKey&) const = default;
};

struct NodeState {
  NodeReport report;         // The newest.
  std::uint64_t joined = 0;  // Order of first contact.
  Time expires;              // The lease's end.
  bool call_open = false;
  std::optional<Time> unconnected;     // Since when no call is open.
  std::optional<Time> cancelled;       // Since when, if its newest call was cancelled.
  bool lease_decides = false;          // Closed together with others: the grace does not count.
  bool lost = false;                   // Told to stop and to draw a new incarnation.
  std::optional<std::string> refused;  // Why it cannot be part of the run.
  bool acknowledged = false;           // Has echoed its Finish.
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
  std::vector<std::string> spawn_failures;  // "n1: cannot execute ..."
};

struct CoordinatorState {
  RunId run_id;
  Phase phase = Phase::kGathering;
  Time since;                     // Of the phase.
  std::optional<RunShape> shape;  // The first report's.
  std::map<NodeKey, NodeState> nodes;
  std::optional<World> world;  // The current or last one.
  Generation newest;           // Highest generation given, hosted or promised away.
  std::uint32_t restarts_used = 0;
  std::uint64_t worlds_formed = 0;
  std::uint64_t joins = 0;
  std::uint32_t ready = 0;    // Nodes that could form a world; kept while gathering.
  std::uint64_t edition = 0;  // Moves when what others than the reporting node are told may change,
                              // so that a driver need not look at every parked call each time.
  std::optional<Time> last_call;
  std::optional<Drain> drain;
  std::optional<Finish> outcome;
  std::optional<Time> wake;  // NextWake after the last Step: tells a late tick.
};

// ---- Decisions ----
std::vector<Notice> Step(CoordinatorState& state, const CoordinatorConfig& config,
                         const CoordinatorEvent& event, Time now);

// What a node should do now. Unknown nodes wait; so does one that hosts nothing and echoes its
// Finish: that answer is only the receipt of its acknowledgement.
Directive DirectiveFor(const CoordinatorState& state, const CoordinatorConfig& config,
                       const NodeId& node, Incarnation incarnation, Time now);

std::optional<Time> NextWake(const CoordinatorState& state, const CoordinatorConfig& config);

// False for a report that a newer one of the same incarnation has overtaken: drop its call.
bool IsNewest(const CoordinatorState& state, const NodeReport& report);

Duration LeaseOf(const CoordinatorState& state, const CoordinatorConfig& config);

// The run is over and every node that must know it does: the server may forget the run.
bool IsOver(const CoordinatorState& state);

// At most this many memberships are remembered per run; more are refused.
inline constexpr std::size_t kMaxMemberships = 200'000;

}  // namespace ddprun
