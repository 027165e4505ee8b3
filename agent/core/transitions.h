// The moves that several events of the node agent share: beginning a stop, becoming idle, ending.
//
// Internal to agent/core.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/core/state.h"

namespace ddprun {

// One Step's working set: its inputs and its effects.
struct AgentStepContext {
  AgentState& state;
  const AgentConfig& config;
  Time now;
  std::vector<AgentEffect> effects;
  bool send = false;  // A report is due even if nothing in it changed.
  Time before;        // Of the event before this one.

  void Tell(NoticeLevel level, std::string text) { effects.push_back(Say{level, std::move(text)}); }
};

inline constexpr int kSigInt = 2;  // POSIX numbers; <signal.h> stays out of the core.
inline constexpr int kSigQuit = 3;
inline constexpr int kSigUsr1 = 10;
inline constexpr int kSigUsr2 = 12;
inline constexpr int kSigTerm = 15;

inline constexpr Duration kLeaveAlone{1'000};  // A leaver without a server does not wait longer.

// A generation's processes are there, or not all gone yet.
bool HasWorkers(const AgentState& state);

// Of a node that ends because a signal asked for it, or because a scheduler's did so elsewhere:
// 128+N; 75 where it was a scheduler's and every worker here has saved: it may start the run again.
int StopCode(const AgentState& state, const AgentConfig& config);

// The Finish's own code, --give-up-code where it stands for that, or StopCode where it counts.
int ExitCodeFor(const AgentState& state, const AgentConfig& config, const Finish& finish);

void ExitNow(AgentStepContext& step, int code, std::string text);

// From Running only: `signal` to all workers, SIGKILL when the grace is over. Planned stops give
// the shutdown timeout, others the stop grace.
void BeginStop(AgentStepContext& step, bool planned, int signal);

// In a planned stop by SIGINT workers that ignore it, as those of a shell's background do, get TERM
// in the last part of the grace.
void TerminateIfDue(AgentStepContext& step);

// A planned stop has become one by failure or loss: a rank that is blocked with a dead peer never
// sees TERM, so a long grace would be of no use.
void HurryStop(AgentStepContext& step);

// In a stop by failure or loss a worker saves: it has until 3 s after it was last seen to work, and
// the shutdown timeout at most.
void ProlongStop(AgentStepContext& step, const StillActive& active);

void KillNow(AgentStepContext& step);

// A new incarnation, which knows nothing of the old one's world.
void RenewMembership(AgentState& state);

// Acknowledges by echoing the Finish once more, then ends.
void BeginDone(AgentStepContext& step);

// Every process of the generation is gone.
void BecomeIdle(AgentStepContext& step, Generation generation);

// A pause after a failed call ends. Of a large world not: all would ask at one moment.
void LookAtOnce(AgentStepContext& step);

// The events of the run that a server sends are kept for the next server, which gets those that it
// lacks.
void KeepEvents(AgentState& state, const SyncReply& reply);

}  // namespace ddprun
