// Decides whether a worker of this node is late: without progress for longer than it may be.
//
// Progress is a STEP larger than every earlier one, or a PHASE other than the last. The watch
// begins with a worker's hello (READY or STEP): one that never says hello is never late, and where
// none of this node has said hello within the time-out, people are told once. Late is not hung:
// which rank hangs, if any, is the coordinator's to say, who hears of all of them.
//
// Internal to agent/core.
#pragma once

#include "agent/core/transitions.h"

namespace ddprun {

void OnWorkerSpoke(AgentStep& step, const WorkerSpoke& spoke);

// A new generation's workers have said nothing yet.
void ForgetWords(AgentState& state);
void HearNoMoreOf(AgentState& state, std::uint32_t ended_local_rank);

// Who has become late. A tick that comes late itself (this agent was paused) judges nobody: what
// workers said meanwhile may be waiting in their sockets.
void FindLateWorkers(AgentStep& step);

// When people are to be told that --hang-timeout watches no worker of this generation, which they
// believe to be guarded; none: it watches one, or they know.
std::optional<Time> UnwatchedAt(const AgentState& state, const AgentConfig& config);

// When --start-timeout ends for a worker of this generation that has not begun; none: all have, or
// have been judged, or only what they say of themselves counts (start_spares_busy).
std::optional<Time> StartJudgedAt(const AgentState& state, const AgentConfig& config);

// The workers are about to start: their time runs from now on.
void BeginStart(AgentStep& step);

// When the next worker becomes late if it makes no progress.
std::optional<Time> NextLate(const AgentState& state, const AgentConfig& config);

std::vector<Standing> StandingsOf(const AgentState& state);

// The lowest rank that is late.
std::optional<std::uint32_t> LateRank(const AgentState& state);

// From Running: the stacks of all workers, those furthest behind first, then SIGKILL; SIGKILL after
// kEvidenceTime at the latest. Never TERM: a rank blocked with a dead peer does not see
// it.
void BeginHangStop(AgentStep& step);

}  // namespace ddprun
