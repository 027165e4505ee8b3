#include "agent/core/report.h"

#include <algorithm>

#include "agent/core/fencing.h"
#include "agent/core/health.h"
#include "agent/core/rank_details.h"
#include "agent/core/signals.h"
#include "agent/core/transitions.h"

namespace ddprun {

// Cheap: it is made twice for each word of a worker.
NodeReport ReasonsOf(const AgentState& state) {
  NodeReport report;
  static_cast<NodeStanding&>(report) = state;
  switch (state.phase) {
    case AgentPhase::kIdle:
    case AgentPhase::kDone:
      report.hosting = Hosting::kNothing;
      break;
    case AgentPhase::kRunning:
      report.hosting = Hosting::kWorkers;
      report.starting = state.start_lasts;
      break;
    case AgentPhase::kStopping:
      report.hosting = Hosting::kStopping;
      break;
  }
  report.hung_rank = LateRank(state);
  report.checking = state.fitness.checking && state.fitness.unfit.empty();
  report.unfit = state.fitness.unfit;
  report.events_seen = state.history.newest();
  report.events =
      state.history.After(state.events_kept, kMostEventsAtOnce, kMostEventBytesAtOnce, state.term);
  report.job_ends_unix = state.job_end ? state.job_end->unix_seconds : 0;
  return report;
}

NodeReport ReportOf(const AgentState& state, const AgentConfig& config) {
  NodeReport report = ReasonsOf(state);
  static_cast<NodeIdentity&>(report) = config;
  report.progress = state.progress;
  report.ended_well = state.succeeded;
  report.progress_groups = ProgressGroupsOf(state);
  report.start_timings = state.start_timings;
  report.facts = state.facts;
  if (!config.cannot_start.empty()) {
    report.outcome = Outcome::kSpawnFailed;  // Of no placement: it has not even tried.
  }
  return report;
}

RankDetails RankDetailsOf(const AgentState& state, const AgentConfig& config) {
  RankDetails details;
  if (!HasWorkers(state)) {
    return details;
  }
  details.training = state.training;
  details.steps = state.steps;
  details.ranks.resize(config.workers);
  for (const std::uint32_t local_rank : state.ended) {
    if (local_rank < config.workers) {
      details.ranks[local_rank].state = RankState::kEnded;
    }
  }
  for (const auto& [local_rank, heartbeat] : state.heartbeats) {
    if (local_rank >= config.workers) {
      continue;
    }
    RankDetail& rank = details.ranks[local_rank];
    rank.state = heartbeat.late ? RankState::kLate : RankState::kRunning;
    rank.step = heartbeat.step;
    rank.step_time = heartbeat.step_time;
    rank.work = LeastWork(heartbeat);
    rank.since =
        std::chrono::floor<Duration>(std::max(state.sent, heartbeat.since) - heartbeat.since);
    const std::string shown =
        heartbeat.phase.empty() && heartbeat.in_collective ? kInCollective : heartbeat.phase;
    if (shown.empty()) {
      continue;
    }
    auto phase = std::ranges::find(details.phases, shown);
    if (phase == details.phases.end() && details.phases.size() < kMostPhases) {
      phase = details.phases.insert(phase, shown);
    }
    if (phase != details.phases.end()) {
      rank.phase = static_cast<std::uint32_t>(phase - details.phases.begin()) + 1;
    }
  }
  return details;
}

std::optional<Time> NextWake(const AgentState& state, const AgentConfig& config) {
  const bool idle = state.phase == AgentPhase::kIdle;
  const std::optional<Time> outage = state.heard + OutageLimit(state, config);
  std::optional<Time> wake;
  for (const std::optional<Time>& when :
       {state.terminate_at, state.kill_at, state.unkillable_at, state.exit_at, state.retry_at,
        state.fitness.again, state.fitness.patience, state.leave_at, NextLate(state, config),
        UnwatchedAt(state, config), StartJudgedAt(state, config), FenceTime(state, config),
        StopTime(state), idle ? outage : std::nullopt}) {
    if (when && (!wake || *when < *wake)) {
      wake = when;
    }
  }
  return wake;
}

bool NeedsStore(const AgentState& state) {
  if (!state.placement || state.placement->group_rank != 0 || state.finish) {
    return false;
  }
  switch (state.phase) {
    case AgentPhase::kRunning:
      return true;
    case AgentPhase::kStopping:
      return state.planned;
    case AgentPhase::kIdle:
      // Own workers are done; those of other nodes may still need the store, until a directive says
      // otherwise.
      return state.outcome == Outcome::kSucceeded && state.echo &&
             !std::holds_alternative<Stop>(*state.echo);
    case AgentPhase::kDone:
      return false;
  }
  return false;
}

}  // namespace ddprun
