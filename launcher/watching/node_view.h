// One node's knowledge of itself, and of its run if it hosts the rendezvous, as values that may
// leave the loop. Ages, never moments. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/state.h"
#include "agent/host/host_judge.h"
#include "rendezvous/core/status.h"

namespace ddprun {

// Since the agent's start.
struct WorkerCounts {
  std::uint64_t started = 0;
  std::uint64_t succeeded = 0;  // Ended with 0.
  std::uint64_t failed = 0;     // Ended with another code.
  std::uint64_t killed = 0;     // Ended by a signal, ours too.
  Generation generation;        // The newest generation that was started here.
  std::uint32_t of_it = 0;      // Workers of that generation that were started.

  // `ended`: none: it was started.
  void Count(Generation of, const std::optional<ExitStatus>& ended);
};

struct RankProgress {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;  // 0: none was reported.
  Duration since{0};       // Without progress.
  bool late = false;
};

struct NodeView {
  RunId run_id;
  NodeId node;
  std::string scheduler;  // "Slurm step 12.0"
  AgentPhase phase = AgentPhase::kIdle;
  Term term;
  Generation generation;  // 0: it runs none.
  std::uint32_t world_size = 0;
  std::uint32_t workers = 0;  // Workers that this node should run.
  std::uint32_t alive = 0;    // Workers that run.
  bool starting = false;      // Workers are being made.
  std::uint32_t restarts_used = 0;
  std::uint32_t max_restarts = 0;
  bool ever_heard = false;            // A server has answered.
  Duration heard{0};                  // How long ago a server answered last.
  std::vector<RankProgress> ranks;    // Ranks that report STEP or PHASE.
  std::optional<WaitReason> waiting;  // Why an idle node waits.
  bool leaving = false;
  std::optional<std::int64_t> job_ends_unix;
  WorkerCounts counts;
  std::vector<HostSample> host;  // Of its machine.
  std::optional<RunStatus> run;  // Of the server, where it is here.
};

NodeView ViewOf(const AgentState& state, const AgentConfig& config, const WorkerCounts& counts,
                Time now);

// Whether this node does its part: its workers run, or it is a spare that waits for its turn.
// `words` say why, or why not.
struct Readiness {
  bool ready = false;
  std::string words;
};
Readiness ReadinessOf(const NodeView& view);

}  // namespace ddprun
