// Decides whether a worker of this node is late: without progress for longer than it may be.
//
// Progress is a STEP larger than every earlier one, or a PHASE other than the last. The watch
// begins with a worker's hello (READY or STEP): a worker that never says hello is never late. If no
// worker of this node has said hello within the time-out, one message says so. Late does not mean
// hung: the coordinator, which knows all ranks, decides which rank hangs, if any.
//
// Internal to agent/core.
#pragma once

#include "agent/core/transitions.h"

namespace ddprun {

void OnWorkerSpoke(AgentStepContext& step, const WorkerSpoke& spoke);

// Forgets the words of the last generation's workers: a new one begins.
void ForgetWords(AgentState& state);
void HearNoMoreOf(AgentState& state, std::uint32_t ended_local_rank);

// Marks the workers that have become late. A tick that comes late itself (this agent was paused)
// marks none: their words may still be waiting in their sockets.
void FindLateWorkers(AgentStepContext& step);

// When a message must say that --hang-timeout watches no worker of this generation, although the
// user expects it. None: it watches one, or the message was printed.
std::optional<Time> UnwatchedAt(const AgentState& state, const AgentConfig& config);

// When --start-timeout ends for a worker of this generation that has not begun. None: all have
// begun or were judged, or only their own words count (start_spares_busy).
std::optional<Time> StartJudgedAt(const AgentState& state, const AgentConfig& config);

// The workers are about to start: --start-timeout counts from now on.
void BeginStart(AgentStepContext& step);

// When the next worker becomes late if it makes no progress.
std::optional<Time> NextLate(const AgentState& state, const AgentConfig& config);

std::vector<ProgressGroup> ProgressGroupsOf(const AgentState& state);

// The lowest rank that is late.
std::optional<std::uint32_t> LateRank(const AgentState& state);

// From Running: the stacks of all workers, those furthest behind first, then SIGKILL; SIGKILL after
// kEvidenceTime at the latest. Never TERM: a rank blocked with a dead peer does not see
// it.
void BeginHangStop(AgentStepContext& step);

}  // namespace ddprun
