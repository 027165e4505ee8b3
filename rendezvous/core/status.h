// A run as it is seen from outside, in values: the content of `ddprun status`.
//
// Pure: follows from a coordinator's state and changes nothing. Ages, never moments: no clocks are
// compared. Bounded: kMaxListedNodes nodes, those of the world first; the rest is counted.
//
// A field is its line in a struct and its row in the table below it: wire and JSON go by the rows.
// Still to be done by hand: its number in proto/status.proto, its value in status.cc, and its words
// in launcher/verbs/status.cc where it is shown on the screen too.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "rendezvous/core/state.h"
#include "rendezvous/messages/fields.h"
#include "rendezvous/messages/history.h"

namespace ddprun {

// A name must not be empty, unless it may be.
enum class Empty { kNever, kMay };

template <class Of, class T>
struct StatusField {
  constexpr StatusField(const char* field, const char* key, T Of::*of, Empty may = Empty::kMay)
      : name(field), json(key), member(of), empty(may) {}

  const char* name;  // On the wire, where _ms follows a duration's.
  const char* json;
  T Of::*member;
  Empty empty;
};

struct NodeStatus {
  NodeId node;
  std::string host;
  Incarnation incarnation;
  std::string state;  // One or two words: "running", "spare", "lost", ...
  Duration last_seen{0};
  std::uint32_t workers = 0;
  bool in_world = false;
  std::uint32_t first_rank = 0;  // Of a node in the world.
  std::uint64_t step = 0;        // Lowest STEP of its workers; 0: none was reported.
  std::string phase;             // Their PHASE; empty: none was reported.
  std::uint32_t late = 0;        // Workers without progress for longer than they may be.
  std::string step_source;       // Of `step`; empty: their word; else "printed", "collectives".
  std::string reason;            // Why it is unfit or refused; empty: it is neither.
  std::string page;              // Where it answers browsers; empty: nowhere.
  HostFacts facts;               // Of its machine.
  RankDetails rank_details;      // Filled in by its keeper; empty: not known.
  bool operator==(const NodeStatus&) const = default;
};

inline constexpr std::tuple kNodeStatusFields{
    StatusField{"node", "node", &NodeStatus::node, Empty::kNever},
    StatusField{"host", "host", &NodeStatus::host},
    StatusField{"incarnation", "incarnation", &NodeStatus::incarnation},
    StatusField{"state", "state", &NodeStatus::state, Empty::kNever},
    StatusField{"last_seen", "last_seen_seconds", &NodeStatus::last_seen},
    StatusField{"workers", "workers", &NodeStatus::workers},
    StatusField{"in_world", "in_world", &NodeStatus::in_world},
    StatusField{"first_rank", "first_rank", &NodeStatus::first_rank},
    StatusField{"step", "step", &NodeStatus::step},
    StatusField{"step_source", "step_source", &NodeStatus::step_source},
    StatusField{"phase", "phase", &NodeStatus::phase},
    StatusField{"late", "late_workers", &NodeStatus::late},
    StatusField{"reason", "reason", &NodeStatus::reason},
    StatusField{"page", "page", &NodeStatus::page},
};
static_assert(IsWhole<NodeStatus>(kNodeStatusFields, 2));  // Its facts, its workers one by one.

inline constexpr std::tuple kStartupFields{
    StatusField{"term", "term", &Startup::term},
    StatusField{"number", "number", &Startup::number, Empty::kNever},
    StatusField{"generation", "generation", &Startup::generation, Empty::kNever},
    StatusField{"cause", "cause", &Startup::cause},
    StatusField{"cause_word", "cause_word", &Startup::cause_word},
    StatusField{"age", "began_seconds_ago", &Startup::age},
    StatusField{"detect", "detect_seconds", &Startup::detect},
    StatusField{"stop", "stop_seconds", &Startup::stop},
    StatusField{"backoff", "backoff_seconds", &Startup::backoff},
    StatusField{"form", "form_seconds", &Startup::form},
    StatusField{"start", "start_seconds", &Startup::start},
    StatusField{"state", "state_seconds", &Startup::state},
    StatusField{"first_step", "first_step_seconds", &Startup::first_step},
    StatusField{"stopped_last", "stopped_last", &Startup::stopped_last},
    StatusField{"started_last", "started_last", &Startup::started_last},
    StatusField{"restored_last", "restored_last", &Startup::restored_last},
    StatusField{"stepped_last", "stepped_last", &Startup::stepped_last},
};
static_assert(IsWhole<Startup>(kStartupFields));

// The level is beside them.
inline constexpr std::tuple kRunEventFields{
    StatusField{"term", "term", &RunEvent::term},
    StatusField{"number", "number", &RunEvent::number, Empty::kNever},
    StatusField{"when", "unix_time", &RunEvent::when},
    StatusField{"age", "age_seconds", &RunEvent::age},
    StatusField{"kind", "kind", &RunEvent::kind, Empty::kNever},
    StatusField{"cause", "cause", &RunEvent::cause},
    StatusField{"generation", "generation", &RunEvent::generation},
    StatusField{"node", "node", &RunEvent::node},
    StatusField{"detect", "detect_seconds", &RunEvent::detect},
    StatusField{"stop", "stop_seconds", &RunEvent::stop},
    StatusField{"backoff", "backoff_seconds", &RunEvent::backoff},
    StatusField{"form", "form_seconds", &RunEvent::form},
    StatusField{"start", "start_seconds", &RunEvent::start},
    StatusField{"state", "state_seconds", &RunEvent::state},
    StatusField{"first_step", "first_step_seconds", &RunEvent::first_step},
    StatusField{"lost", "lost_seconds", &RunEvent::lost},
    StatusField{"text", "text", &RunEvent::text},
};
static_assert(IsWhole<RunEvent>(kRunEventFields,
                                3));  // Level, and the server's own reason and clock.

inline constexpr std::tuple kCauseTotalFields{
    StatusField{"cause", "cause", &CauseTotal::cause, Empty::kNever},
    StatusField{"ended", "worlds_ended", &CauseTotal::ended},
    StatusField{"lost", "lost_seconds", &CauseTotal::lost},
};
static_assert(IsWhole<CauseTotal>(kCauseTotalFields));

struct RunStatus {
  RunId run_id;
  std::string phase;  // "gathering", "running", ...
  Duration phase_since{0};
  Generation generation;  // 0: none was formed yet.
  std::uint32_t group_size = 0;
  std::uint32_t world_size = 0;
  std::uint32_t min_nodes = 0;
  std::uint32_t max_nodes = 0;
  std::uint32_t restarts_used = 0;
  std::uint32_t max_restarts = 0;
  std::uint32_t requeues = 0;      // How often a scheduler started the job again.
  std::int64_t job_ends_unix = 0;  // The first end that a node knows of; 0: none does.
  std::string waits_for;           // Why nothing moves, in words; empty: it trains, or is over.
  std::string outcome;             // Of a run that has ended; empty: it has not.
  int exit_code = 0;               // With it.
  std::vector<NodeStatus> nodes;
  std::uint32_t more_nodes = 0;
  std::vector<Startup> startups;        // Oldest first, as many as are kept.
  std::vector<RunEvent> events;         // The last events, oldest first; filled in by their keeper.
  std::vector<CauseTotal> totals;       // Costs by cause; filled in by the same keeper.
  std::vector<TrainingPoint> training;  // Ordered by step; filled in by the same keeper.
  std::uint64_t steps = 0;  // In all, as workers reported, beside `training`; 0: none did.
  Duration known{0};        // How far back events go: goodput counts from there. 0: there are none.
  bool operator==(const RunStatus&) const = default;
};

inline constexpr std::tuple kRunStatusFields{
    StatusField{"run_id", "run_id", &RunStatus::run_id, Empty::kNever},
    StatusField{"phase", "phase", &RunStatus::phase, Empty::kNever},
    StatusField{"phase_since", "phase_seconds", &RunStatus::phase_since},
    StatusField{"generation", "generation", &RunStatus::generation},
    StatusField{"group_size", "nodes_in_world", &RunStatus::group_size},
    StatusField{"world_size", "world_size", &RunStatus::world_size},
    StatusField{"min_nodes", "min_nodes", &RunStatus::min_nodes},
    StatusField{"max_nodes", "max_nodes", &RunStatus::max_nodes},
    StatusField{"restarts_used", "restarts_used", &RunStatus::restarts_used},
    StatusField{"max_restarts", "max_restarts", &RunStatus::max_restarts},
    StatusField{"requeues", "requeues", &RunStatus::requeues},
    StatusField{"job_ends_unix", "job_seconds_left", &RunStatus::job_ends_unix},
    StatusField{"waits_for", "waits_for", &RunStatus::waits_for},
    StatusField{"outcome", "outcome", &RunStatus::outcome},
    StatusField{"exit_code", "exit_code", &RunStatus::exit_code},
    StatusField{"known", "known_seconds", &RunStatus::known},
    StatusField{"steps", "steps_in_all", &RunStatus::steps},
};
static_assert(IsWhole<RunStatus>(kRunStatusFields, 6));  // The lists, and what one leaves out.

RunStatus StatusOf(const CoordinatorState& state, const CoordinatorConfig& config, Time now);

}  // namespace ddprun
