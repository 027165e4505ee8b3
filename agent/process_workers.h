// The real workers of this node: processes with their attempt directories, notify sockets, timers
// and the files that they leave behind.
//
// Decides nothing: the caller chooses which workers are stopped, and when.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/agent_options.h"
#include "agent/generation.h"
#include "agent/node_workers.h"
#include "agent/survivors.h"
#include "agent/watch/failure_evidence.h"
#include "agent/watch/hang_evidence.h"
#include "agent/watch/life_locks.h"
#include "agent/watch/live_stacks.h"
#include "agent/watch/memory_store.h"
#include "agent/watch/notify_socket.h"
#include "agent/watch/timer_watchdog.h"
#include "agent/workers/process_runner.h"
#include "common/asio_loop.h"

namespace ddprun {

class ProcessWorkers final : public NodeWorkers {
 public:
  ProcessWorkers(AsioLoop& loop, std::shared_ptr<const AgentOptions> options);
  ~ProcessWorkers() override;

  // Opens the FIFO of torchrun's timers, if the environment asks for it.
  Result<void> Open();

  // A sentence for people about the preload process. `changed` is called when it changes.
  std::string Preloaded() const;
  pid_t KeepPreload() { return runner_.KeepPreload(); }  // WarmStart::Keep.
  void OnPreloaded(std::function<void()> changed) { preload_changed_ = std::move(changed); }

  void Listen(WorkersEvents events) override { events_ = std::move(events); }
  std::filesystem::path Start(const Placement& placement) override;
  std::string Starting() const override { return runner_.Starting(); }
  void SignalAll(int signal, bool end_at_once) override;
  void KillAll() override;
  void TakeStacks(const std::vector<std::uint32_t>& local_ranks, Duration limit,
                  std::function<void()> done) override;

  // For operators: takes the stacks of workers that keep running. `done` is called once. Calling
  // the returned function cancels it.
  std::function<void()> TakeLiveStacks(const RequestSpec& spec, LiveStacks::Done done);
  // Writes evidence of workers that keep running into their generation's bundle. `done` is called
  // once, later, with a record for each of them: kDone with the bundle, or why there is none.
  void KeepLiveEvidence(const RequestSpec& wanted, LiveStacks::Done done);
  // Sends each wanted worker that runs the signal by which it saves, if it has named one. Returns a
  // record for each: done, or why not.
  std::vector<AnswerRecord> TellToSave(const RequestSpec& spec);
  const std::shared_ptr<KeptOutput>& kept() const { return kept_; }

  // Calls `done` on the loop: now, or when evidence that is being written is complete (seconds).
  void WhenEvidenceIsKept(std::function<void()> done);

  // The window size of ddprun's terminal has changed.
  void SetWindows() { runner_.SetWindows(); }

  Consoles& consoles() { return runner_.consoles(); }

 private:
  std::filesystem::path NewAttemptDirectory(const Placement& placement);
  void OnSpawned(const Result<void>& spawned);
  void OnSaid(std::uint32_t local_rank, const Notification& said, const SentDescriptor& sent);
  void Pass(std::uint32_t local_rank, WorkerWord word);
  void LookAtPreload();
  void TellRefusal(std::uint32_t local_rank, const std::string& text);
  void OnDying(std::uint32_t local_rank, pid_t process);
  void OnEnded(std::uint32_t local_rank, ExitStatus status, LastErrors errors);
  LeftFiles FilesOf(std::uint32_t local_rank, ExitStatus status, LastErrors errors) const;
  void OnLeft(const StraysOfWorker& left);
  void OnAllGone();
  void EndGeneration();
  void OnTimerExpired(const TimerRequest& request);
  void TellOfStacks(const std::filesystem::path& file, std::function<void()> done);
  void KeepEvidenceOfFailure();
  HangEvidenceRequest HangRequestFor(const std::vector<std::uint32_t>& local_ranks);
  std::size_t MostLines() const;
  std::string NotifySocketOfWorker(std::uint32_t local_rank) const;
  void Tell(std::uint32_t local_rank, std::optional<ExitStatus> ended) const;

  AsioLoop& loop_;
  const std::shared_ptr<const AgentOptions> options_;  // Shared with a start that may never end.
  std::map<std::string, std::string> environment_;
  WorkersEvents events_;
  const std::shared_ptr<KeptOutput> kept_;
  ProcessRunner runner_;
  MemoryStore memory_;
  NotifySockets notify_;
  LifeLockWatch life_;
  LoopTimer preload_timer_;
  std::string preload_told_;
  std::function<void()> preload_changed_ = [] {};
  Placement placement_;                   // Of the last start.
  std::shared_ptr<GenerationPlan> plan_;  // Of the last start; owns its sockets' files.
  std::filesystem::path attempt_;
  std::uint64_t memory_kills_ = 0;  // The kernel's count when the generation began.
  std::filesystem::file_time_type began_;
  bool kept_evidence_ = false;  // Evidence of the first failure is kept, or a stop has begun.
  bool death_begun_ = false;    // Of one that was not stopped: its evidence is kept at its end.
  std::uint32_t starts_ = 0;
  std::set<std::uint32_t> refusal_told_;  // Local ranks whose refusal was logged.
  HangEvidence hang_evidence_;
  std::weak_ptr<void> live_evidence_;  // Expired: no evidence of live workers is being written.
  FailureEvidence failure_evidence_;
  LiveStacks live_stacks_;
  Survivors survivors_;
  std::map<std::uint32_t, TimerRequest> timer_kills_;  // By local rank of this generation.
  static constexpr std::size_t kMostRefusals = 16;
  std::set<pid_t> refused_timers_;           // Processes whose refused timers were logged.
  std::unique_ptr<TimerWatchdog> watchdog_;  // Only with TORCHELASTIC_ENABLE_FILE_TIMER=1.
  std::vector<std::int64_t> pids_;
  std::vector<int> save_signals_;   // By local rank; 0: it has named none.
  std::set<std::string> attempts_;  // "attempt_<n>" that were used.
};

}  // namespace ddprun
