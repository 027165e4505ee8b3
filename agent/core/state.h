// A node agent's configuration, and its state. Values; changed by node_agent's Step alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/events.h"
#include "rendezvous/messages/history.h"

namespace ddprun {

inline constexpr Duration kStopGrace{5'000};  // A coordinator relies on it, unless the node reports
                                              // `saving`.
// How long a node that cannot start its workers stays, so that the other nodes hear of it.
inline constexpr Duration kTellsOthers{30'000};

struct AgentConfig : NodeIdentity {
  // The rendezvous' address in messages: a wrong one only misleads their reader.
  std::string server;
  // The node that becomes the leader next, in messages; empty: they name none.
  std::string successor;
  // TERM to KILL after a failure or loss: too short kills workers that still save, too long delays
  // the next generation. More than kStopGrace makes the node report `saving`.
  Duration stop_grace = kStopGrace;
  // An idle node without a server gives up after it (69): too short ends nodes during a takeover,
  // too long keeps machines of a run that has gone.
  Duration outage_limit{600'000};
  // A worker without progress for longer is late: too short restarts workers in a long step; 0: no
  // worker is judged after its start.
  Duration hang_timeout{0};
  // A worker without a first progress by then is late: too short restarts workers that load data;
  // 0: no start is judged.
  Duration start_timeout{0};
  // False: no warning says that hang_timeout has no effect since no worker reports progress.
  bool says_unwatched = true;
  // True: only a worker that was idle for hang_timeout starts too slowly; false: a busy one does
  // too, so a long compilation counts as a hang.
  bool start_spares_busy = true;
  // True: at the end of start_timeout a worker of which nothing was seen is late; without a source
  // of progress that is every worker.
  bool judges_unseen = false;
  // A scheduler's signals mean "save, the job starts again": if wrongly false, ddprun does not exit
  // with 75, and the scheduler ends the job.
  bool preemptible = false;
  // A scheduler's signals make only this node leave: if wrongly false, the loss of one node stops
  // the whole run.
  bool leaves_alone = false;
  // --host-check and --node-check are run; false: a bad machine joins.
  bool checks_node = false;
  // No other node can join the run: if wrongly true, a failed node check is logged as a detail
  // only.
  bool alone = false;
  // Why the workers cannot start on this machine; empty: they can, and a reason left out makes the
  // first generation fail.
  std::string cannot_start;
  // The exit code of a run that must not be started again; 0: the run's own code, for which a
  // scheduler may start the job again.
  int give_up_code = 0;
};

// The time that the quickest of some steps took their rank by itself.
struct StepWork {
  std::uint64_t steps = 0;
  std::chrono::microseconds least{0};
  bool operator==(const StepWork&) const = default;
};

// A worker that said hello, or whose progress has another source, and runs.
struct Heartbeat {
  ProgressSource source = ProgressSource::kTold;  // The best that has spoken: of `step`.
  std::uint64_t collectives = 0;                  // Beside kPrinted too; 0: none is known.
  std::uint64_t world_collectives = 0;            // Of these the ones that all ranks share.
  std::uint64_t printed = 0;                      // The steps counted in its printed lines.
  std::uint64_t step = 0;
  std::string phase;
  Time stepped;                            // When the step was reported.
  std::chrono::microseconds step_time{0};  // The time of a step, smoothed; 0: unknown.
  std::vector<StepWork> work;  // Newest last: kWorkSteps steps, and those reported with them.
  Time since;                  // Of its last progress: a larger STEP, another PHASE, or the hello.
  Duration allowed{0};         // From then on.
  bool in_collective = false;  // As its watch says of a worker of kTold; for people.
  // It has begun no collective: it is late only if its watch reports it as still.
  bool unjoined = false;
  bool late = false;
  bool forgiven = false;  // The agent was paused since: it was given time once.
  bool operator==(const Heartbeat&) const = default;
};

// A worker's word of how it begins.
struct Begun {
  std::optional<std::uint64_t> resume;
  bool stepped = false;  // Beyond that.
  bool operator==(const Begun&) const = default;
};

// The verdict of this node's check (fitness.h).
struct Fitness {
  bool checking = false;
  bool suspect = false;          // Workers failed: it is looked at once they are gone.
  std::string unfit;             // Why it is; empty: it is fit.
  std::uint32_t refusals = 0;    // In a row.
  std::optional<Time> again;     // The next check of one that is unfit.
  std::optional<Time> patience;  // Until a message says that a check lasts.
  bool operator==(const Fitness&) const = default;
};

enum class AgentPhase { kIdle, kRunning, kStopping, kDone };

// Beside the state that reports have. `saving`: the stop in progress gives no time to save, but
// workers use some, or were promised it.
struct AgentState : NodeStanding {
  AgentPhase phase = AgentPhase::kIdle;
  std::optional<Incarnation> next_incarnation;  // Declared lost: to be taken when idle.
  bool call_open = false;
  Duration poll_period{1'000};

  std::uint32_t alive = 0;  // Workers whose status is not known yet.
  std::uint32_t succeeded = 0;
  bool start_lasts = false;
  std::set<int> early_signals;  // USR1, USR2: came while the workers were being started.
  std::uint64_t progress = 0;
  std::map<std::uint32_t, Heartbeat> heartbeats;  // By local rank.
  Time last_event;                                // When the last event came.
  std::optional<Time> start_due;  // --start-timeout ends; a worker without progress is late then.
  bool start_forgiven = false;    // The agent was paused before: they were given time once.
  bool told_unwatched = false;    // People know that no worker of this run reports progress.
  std::set<std::uint32_t> ended;  // Local ranks of this generation.
  std::optional<TrainingPoint> training;  // As one of its workers reported it.
  std::uint64_t steps = 0;                // In all, likewise; 0: not reported.
  Time told_to_run;
  StartTimings start_timings;
  std::map<std::uint32_t, Begun> begun;  // By local rank.
  bool workers_tell_steps = false;       // A worker of this or an earlier generation sent STEP.
  std::map<std::uint32_t, Time> dying;   // By local rank: when a worker that ran began to die.
  Time first_failure;
  Time stop_began;

  bool planned = false;               // The stop in progress gives time to save.
  bool taking_stacks = false;         // The workers hang: they are killed once that is done.
  std::optional<Time> terminate_at;   // Of a stop by SIGINT: TERM to workers that ignore it.
  std::optional<Time> kill_at;        // TERM to KILL.
  std::optional<Time> unkillable_at;  // KILL to "cannot be killed".

  Fitness fitness;
  std::optional<Time> leave_at;  // A node that cannot start its workers leaves then.
  HostFacts facts;               // Of this machine, for people.
  std::optional<JobEndKnown> job_end;
  int signal = 0;             // The first that asked to end, or the job's end did (TERM); 0: none.
  bool saved = false;         // A worker ended with "start me again" after hello.
  bool unsaved = false;       // A worker ended in another way: neither saved nor successful.
  bool saved_before = false;  // The last generation here had saved; no worker of this one has said
                              // hello.
  std::optional<Finish> finish;
  std::optional<Time> exit_at;  // Done: the acknowledgement is not waited for longer.

  Time heard;           // Last reply, or the start.
  Time sent;            // When the newest call was sent.
  Time answered;        // When the newest answered call was sent.
  bool fenced = false;  // The workers are being killed: no server answered for too long.
  bool ever_heard = false;
  std::optional<bool> outage_told;  // Whether there were workers when it was.
  std::optional<Time> retry_at;
  Duration backoff{0};
  std::string last_error;
  std::optional<WaitReason> waiting;  // As last shown to people.
  History history;        // The run's history as its servers sent it, for the next server.
  EventMark events_kept;  // The newest event before its term that the present server knows.
};

// Its workers are being stopped, and this one was not dying before.
inline bool WasStopped(const AgentState& state, std::uint32_t local_rank) {
  return state.phase == AgentPhase::kStopping && !state.dying.contains(local_rank);
}

// How long an idle agent without a server waits: the join timeout before the first contact.
inline Duration OutageLimit(const AgentState& state, const AgentConfig& config) {
  const Duration limit = state.ever_heard ? config.outage_limit
                                          : std::min(config.outage_limit, config.spec.join_timeout);
  return config.cannot_start.empty() ? limit : std::min(limit, kTellsOthers);
}

}  // namespace ddprun
