// Runs the workers of one generation at a time and reports how each ended, until no process of it
// is left: workers, their sessions, and what they forked away (this process is a subreaper).
//
// The caller decides which workers are stopped, and when. Never polls: pidfds, pipes and SIGCHLD
// wake it. Never waits for a disk: a thread makes the generation (generation_maker.h). Helpers that
// this process starts for itself (WorkerSpec::helper) are left alone; every other child that it has
// or gets belongs to the generation and does not outlive it.
//
//   phase    | made           | cannot be made | TERM INT HUP QUIT, KillAll | other signals
//   ---------|----------------|----------------|----------------------------|--------------
//   Empty    |                |                | nothing                    | nothing
//   Starting | done: Running  | done: Empty    | given up: on_all_gone when | nothing
//            |                |                | none is left; Empty        |
//   Running  |                |                | to the workers' sessions   | to the workers
//
//   Running -> on_ended (each worker, in wait order) -> strays gone, output drained ->
//   on_all_gone
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/workers/generation_maker.h"
#include "agent/workers/strays.h"
#include "agent/workers/worker_output.h"
#include "common/asio_loop.h"
#include "common/exit_status.h"
#include "common/lifetime.h"
#include "common/result.h"

namespace ddprun {

// All called on the loop, never from inside Spawn, SignalAll or KillAll.
struct RunnerEvents {
  // With the last lines (at most 20) that the worker wrote to stderr, or the log that has them.
  std::function<void(std::uint32_t local_rank, ExitStatus status, LastErrors errors)> on_ended;
  // A worker ended and left processes behind.
  std::function<void(const StraysOfWorker& left)> on_left = [](const StraysOfWorker&) {};
  // Every process of the generation is gone and its output was drained: Spawn may be called again.
  std::function<void()> on_all_gone;
};

struct RunnerConfig {
  // For EOF of a pipe that is still held open: too short loses last lines, too long delays the next
  // generation.
  Duration drain_limit = std::chrono::seconds(1);
  // How long processes that workers left may run once all have ended: 0 kills them at once, a long
  // time delays the end of the run.
  Duration linger{0};
  // How long a start that finds no room for a process is tried again: too short fails a generation
  // on a machine that is busy for a moment.
  Duration crowd_patience = std::chrono::seconds(10);
  // Receives the workers' output for requests; none: requests for logs find nothing.
  std::shared_ptr<KeptOutput> kept = nullptr;
  // How the preload process is made; none: every worker is started from its file, which is slower.
  std::optional<WarmPlan> warm;
  // Reads progress from output; called on the loop, before on_ended. Empty: printed steps are
  // not seen.
  ProgressPlan progress = {};
};

class ProcessRunner {
 public:
  ProcessRunner(AsioLoop& loop, RunnerConfig config, RunnerEvents events);
  // Kills what is left, without waiting for it and without calling back.
  ~ProcessRunner();
  ProcessRunner(const ProcessRunner&) = delete;
  ProcessRunner& operator=(const ProcessRunner&) = delete;

  // Starts all workers or none: if one cannot be started the others are killed and waited for.
  // Later calls `started`, or on_all_gone in its place. The last generation must be gone.
  void Spawn(PrepareWorkers prepare, std::function<void(Result<void>)> started);

  // Signals every living worker. TERM, INT, HUP and QUIT go to its whole session, followed by CONT,
  // so that what is stopped gets them; what catches them may outlive its worker until KillAll.
  // `end_at_once`: proto/stop_signal.h.
  void SignalAll(int signal, bool end_at_once = false);

  // This worker is running and will end by itself: SignalAll spares what it has started.
  void NoteDying(std::uint32_t local_rank);

  // Sends SIGKILL to groups, sessions and strays, repeatedly, until none is left.
  void KillAll();

  // The window size of the agent's terminal has changed: sets it for the workers' terminals too.
  void SetWindows();

  // No process of a generation is left; true before the first Spawn.
  bool Empty() const { return workers_.empty() && !maker_.making(); }

  // GenerationMaker::Cleanup.
  void Cleanup(std::function<void()> work) { maker_.Cleanup(std::move(work)); }

  // The step of a start that is under way, for people; "": no start is.
  std::string Starting() const { return maker_.Step(); }

  // Lets an automatic preload process be made where it can be. To be called again and again.
  void LookForPreload();
  // WarmStart::State.
  std::string PreloadState() const { return warm_ ? warm_->State() : ""; }

  // WarmStart::Keep.
  pid_t KeepPreload() { return warm_ ? warm_->Keep() : 0; }

  // Running workers, and ended ones that left processes which end on request (strays.h). No other
  // process can get such a number: this one has not reaped all members of the session.
  std::set<pid_t> Sessions() const;

  // 0: this worker is not running.
  pid_t PidOf(std::uint32_t local_rank) const;

  // Which take what the workers print.
  Consoles& consoles() { return consoles_; }

 private:
  struct Worker {
    Worker(AsioLoop& loop, std::uint32_t rank) : local_rank(rank), pidfd(loop.io()), retry(loop) {}

    std::uint32_t local_rank;
    pid_t pid = 0;
    bool running = false;  // Not reaped: its process id and group cannot be another process's.
    bool dying = false;    // NoteDying.
    boost::asio::posix::stream_descriptor pidfd;
    LoopTimer retry;
    std::unique_ptr<WorkerOutput> output;
  };

  void Adopt(std::vector<SpawnedWorker> made);
  void ReadPreload(const WorkerSpec& spec, OpenedOutput output);
  bool GiveUpStart();
  void WaitFor(Worker& worker);
  void OnEnded(Worker& worker);
  void FinishIfNothingIsLeft();
  void BeginDrain();
  void Finish();
  std::set<pid_t> RunningWorkers() const;

  AsioLoop& loop_;
  const RunnerConfig config_;
  const RunnerEvents events_;
  Consoles consoles_;
  std::unique_ptr<WorkerOutput> preload_output_;  // The newest one's, while it loads.
  const Lifetime life_;                           // Before what uses it on its thread.
  const std::shared_ptr<WarmStart> warm_;         // Or none.
  GenerationMaker maker_;
  std::vector<std::unique_ptr<Worker>> workers_;  // Empty, and none made: none is left.
  Strays strays_;
  LoopTimer drain_limit_;
  bool draining_ = false;  // No process is left, but output may be.
};

}  // namespace ddprun
