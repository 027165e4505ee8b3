// Decides what one node does: when to start, stop and kill its workers, what to promise, when to
// speak to the coordinator, and when and how to end.
//
// Pure: no I/O, no clock, no threads, no logging, no randomness; the driver carries out the effects
// in order and asks NextWake. Never two generations at once: the next one is started only after
// every process of the last one is gone. Never runs a generation at or below its floor.
//
//   Idle     --Run(g), g > floor--------------------------------> Running
//   Running  --last worker exited 0 and everything is gone-------> Idle, floor := g
//   Running  --a worker failed; Stop; Finish; newer Run; signal--> Stopping (TERM, then KILL)
//   Stopping --every process is gone-----------------------------> Idle, floor := g
//   Idle     --Finish; or no server for the outage limit---------> Done
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/messages.h"

namespace ddprun {

struct AgentConfig {
  RunId run_id;
  NodeId node;
  std::string host;
  RunShape shape;
  std::optional<std::uint32_t> node_rank;
  std::uint32_t workers = 1;
  std::uint32_t first_local_rank = 0;  // Other agents have the ranks before on this machine.
  std::string role = "default";
  std::string server;                 // For people: where the rendezvous is,
  std::string successor;              // and who takes its part over; empty: not to be told.
  Duration stop_grace{5'000};         // TERM to KILL after a failure or loss.
  Duration shutdown_timeout{30'000};  // TERM to KILL in a planned stop.
  Duration outage_limit{600'000};     // An idle node without a server gives up after it.
  Duration hang_timeout{0};           // Without progress for longer, a worker is late; 0: never.
  bool preemptible = false;           // A scheduler's signals mean: save, the run will go on later.
  bool leaves_alone = false;          // They may concern this node alone, and others go on without.
  int give_up_code = 0;               // Where nobody should start the run again; 0: the run's own.
  std::uint32_t requeues = 0;         // How often the scheduler started the job again; for people.
};

// ---- Events ----
struct Started {
  Incarnation incarnation;
  Endpoint store;  // The first port offered.
};
struct Replied {
  std::uint64_t sequence = 0;
  SyncReply reply;
  Incarnation spare;  // A fresh random one, used if this membership is over.
};
struct CallFailed {
  std::uint64_t sequence = 0;
  std::string text;
  bool hopeless = false;  // The server cannot use this node's calls: token, protocol.
};
struct WorkerEnded {
  Generation generation;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  ExitStatus status;
  bool said_hello = false;
  std::string last_lines;
  FailureDetails details;
  std::optional<Time> recorded;  // When it failed, by its error file's word.
  std::optional<Time> noticed;   // When its end was; its files were read since. Unset: now.
};
// Every process of the generation is gone and its output is drained. Without any WorkerEnded
// before: it was told to stop before its workers had been started.
struct AllGone {
  Generation generation;
  Endpoint store;  // The port offered from now on.
};
struct SpawnFailed {
  Generation generation;
  std::string text;
  Endpoint store;
};
// Whether the start of the workers lasts: it waits for a disk. Not told of one that does not.
struct StartLasts {
  Generation generation;
  bool lasts = true;
};
// On the notify socket.
struct WorkerSpoke {
  std::uint32_t local_rank = 0;
  bool ready = false;
  std::optional<std::uint64_t> step;
  std::optional<std::string> phase;
  std::optional<Duration> extend;  // The next progress may come this much later than now.
};
struct StacksTaken {
  Generation generation;
};
struct SignalArrived {
  int signal = 0;
  bool starting = false;  // The workers are, however short that lasts: nobody hears it yet.
};
// The machine is taken away then. A later word replaces an earlier one.
struct JobEndKnown {
  Time ends;
  std::int64_t unix_seconds = 0;  // The same moment, for people.
  std::optional<Time> stop;       // When the workers are to save and end; none: nobody asked.
};
struct AgentTick {};
using AgentEvent =
    std::variant<Started, Replied, CallFailed, WorkerEnded, AllGone, SpawnFailed, StartLasts,
                 WorkerSpoke, StacksTaken, SignalArrived, JobEndKnown, AgentTick>;

// ---- Effects ----
struct SendReport {  // Replaces the call in flight.
  NodeReport report;
  Duration deadline{0};
};
// Answered by SpawnFailed, or by WorkerEnded and AllGone; it may last, and be stopped meanwhile.
struct Spawn {
  Placement placement;
};
struct SignalWorkers {
  int signal = 0;
  bool end_at_once = false;  // A peer is gone: there is nothing to save together.
};
struct KillWorkers {};
// Of every worker, into files, these first; answered by StacksTaken, or too late.
struct TakeStacks {
  Generation generation;
  std::vector<std::uint32_t> local_ranks;  // The furthest behind first.
};
struct Exit {
  int code = 0;
  std::optional<Finish> finish;  // What the coordinator said, if it did.
  std::string text;              // Why, when it did not.
};
enum class SayLevel { kDetail, kInfo, kWarning };
struct Say {
  SayLevel level = SayLevel::kInfo;
  std::string text;
};
using AgentEffect =
    std::variant<SendReport, Spawn, SignalWorkers, KillWorkers, TakeStacks, Exit, Say>;

// ---- State ----
// A worker that said hello and runs.
struct Heartbeat {
  std::uint64_t step = 0;
  std::string phase;
  Time since;           // Of its last progress: a larger STEP, another PHASE, or the hello.
  Duration allowed{0};  // From then on.
  bool late = false;
  bool forgiven = false;  // The agent was paused since: it was given time once.
  bool operator==(const Heartbeat&) const = default;
};

enum class AgentPhase { kIdle, kRunning, kStopping, kDone };

struct AgentState {
  AgentPhase phase = AgentPhase::kIdle;
  Incarnation incarnation;
  std::optional<Incarnation> next_incarnation;  // Declared lost: to be taken when idle.
  std::uint64_t sequence = 0;                   // Of the newest call.
  bool call_open = false;
  Term term;
  std::int64_t beat = 0;
  std::optional<Directive> echo;
  Duration poll_period{1'000};
  Endpoint store;

  std::optional<Placement> placement;
  Outcome outcome = Outcome::kNone;
  std::vector<WorkerFailure> failures;
  std::string spawn_failure;
  Generation floor;
  std::uint32_t restarts_used = 0;
  std::uint32_t alive = 0;  // Workers whose status is not known yet.
  std::uint32_t succeeded = 0;
  bool start_lasts = false;
  std::uint64_t progress = 0;
  std::map<std::uint32_t, Heartbeat> heartbeats;  // By local rank.
  Time first_failure;
  Time stop_began;

  bool planned = false;               // The stop in progress gives time to save.
  bool taking_stacks = false;         // The workers hang: they are killed once that is done.
  std::optional<Time> kill_at;        // TERM to KILL.
  std::optional<Time> unkillable_at;  // KILL to "cannot be killed".
  std::uint32_t unkillable = 0;

  std::optional<JobEndKnown> job_end;
  Leaving leaving = Leaving::kNo;
  int signal = 0;             // The first that asked to end, or the job's end did (TERM); 0: none.
  bool saved = false;         // A worker ended with "start me again" after hello,
  bool unsaved = false;       // or in another way than that or success.
  bool saved_before = false;  // The last generation here had saved; nobody of this one said hello.
  std::optional<Finish> finish;
  std::optional<Time> exit_at;  // Done: the acknowledgement is not waited for longer.

  Time heard;           // Last reply, or the start.
  Time sent;            // The newest call,
  Time answered;        // and the newest of those that were answered.
  bool fenced = false;  // The workers are being killed: nobody answered for too long.
  bool ever_heard = false;
  bool outage_told = false;
  std::optional<Time> retry_at;
  Duration backoff{0};
  std::string last_error;
  std::optional<WaitReason> waiting;  // Last told to people.
};

// ---- Decisions ----
std::vector<AgentEffect> Step(AgentState& state, const AgentConfig& config, const AgentEvent& event,
                              Time now);

NodeReport ReportOf(const AgentState& state, const AgentConfig& config);

std::optional<Time> NextWake(const AgentState& state, const AgentConfig& config);

// The store of `placement` must stay open: this node hosts it and its world may still use it.
bool NeedsStore(const AgentState& state);

}  // namespace ddprun
