// A run as somebody who asks from outside sees it, in values: what `ddprun status` shows.
//
// Pure: follows from a coordinator's state and changes nothing. Ages, never moments: no clocks are
// compared. Bounded: kMaxListedNodes nodes, those of the world first; the rest is counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/core/state.h"
#include "rendezvous/messages/notice.h"

namespace ddprun {

struct NodeStatus {
  NodeId node;
  std::string host;
  Incarnation incarnation;
  std::string state;  // One or two words: "running", "spare", "lost", ...
  Duration last_seen{0};
  std::uint32_t workers = 0;
  bool in_world = false;
  std::uint32_t first_rank = 0;  // Of a node in the world.
  std::uint64_t step = 0;        // Lowest STEP of its workers; 0: none was told.
  std::string phase;             // Their PHASE; empty: none was told.
  std::uint32_t late = 0;        // Workers without progress for longer than they may be.
  bool operator==(const NodeStatus&) const = default;
};

struct PastNotice {
  Duration age{0};
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;
  bool operator==(const PastNotice&) const = default;
};

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
  std::vector<PastNotice> notices;  // Oldest first; filled in by whoever keeps them.
  bool operator==(const RunStatus&) const = default;
};

RunStatus StatusOf(const CoordinatorState& state, const CoordinatorConfig& config, Time now);

// The whole state, for people: one line on the run, one per node.
std::vector<std::string> Describe(const CoordinatorState& state, const CoordinatorConfig& config,
                                  Time now);

}  // namespace ddprun
