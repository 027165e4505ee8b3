// Feeds the node agent's core with what happens on this node, and carries out its effects: calls
// to the rendezvous, workers, signals, the generation's store, the run directory.
//
// No judgement here: what to do is agent/core's. Lives on the loop of the agent process.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent_options.h"
#include "agent/core/node_agent.h"
#include "agent/generation.h"
#include "agent/left_behind.h"
#include "agent/memory_kills.h"
#include "agent/node_stores.h"
#include "agent/notify_socket.h"
#include "agent/process_runner.h"
#include "agent/stack_taker.h"
#include "agent/timer_watchdog.h"
#include "common/asio_loop.h"
#include "common/files.h"
#include "rendezvous/transport.h"

namespace ddprun {

// How a worker of this node ended, for people only.
struct EndedWorker {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  ExitStatus status;
  FailureDetails details;
  Duration ran{0};
};

// Of a hung worker, in its directory.
inline constexpr const char* kStacksFile = "stacks.txt";

// The generation that this node ran last.
struct LastAttempt {
  std::filesystem::path directory;  // Has <local rank>/ of every worker.
  std::uint32_t restarts_used = 0;
  Time started;
  std::vector<EndedWorker> failed;  // In wait order; those that we stopped too.
  std::uint64_t memory_kills = 0;   // Before it began.
};

class AgentDriver {
 public:
  AgentDriver(AsioLoop& loop, AgentOptions options, std::unique_ptr<SyncChannel> channel,
              std::function<void(const Exit&)> on_exit);
  ~AgentDriver();

  // Offers the first store port and speaks to the rendezvous. An error: no port could be bound.
  Result<void> Start();

  void OnSignal(int signal) { Feed(SignalArrived{signal}); }
  void OnJobEnd(const JobEndKnown& known) { Feed(known); }

  const LastAttempt& last_attempt() const { return last_attempt_; }
  // A connection to the literal store, from whoever listens there.
  void OnStoreClient(UniqueFd socket) { store_.OnClient(std::move(socket)); }

  std::string Unread() const { return runner_.Unread(); }
  // Gives what the workers printed a moment to reach a slow console.
  void FlushOutput(Duration limit) { runner_.FlushOutput(limit); }

 private:
  void Feed(const AgentEvent& event);
  void CarryOut(const AgentEffect& effect);
  void SpawnWorkers(const Placement& placement);
  void OnSpawned(const Result<void>& spawned);
  void EndGeneration();
  void SayWhatStartWaitsFor();
  void ShowLiveLine();
  void CloseUnneededStore();
  const std::string& OwnAddresses(Hosting hosting);
  void NotePeers(const Result<SyncReply>& reply);
  std::filesystem::path NewAttemptDirectory(const Placement& placement);

  void OnWorkerEnded(std::uint32_t local_rank, ExitStatus status, LastErrors errors);
  void OnAllGone();
  void OnTimerExpired(const TimerRequest& request);
  Result<void> StartWatchdog();
  void OnNotification(std::uint32_t local_rank, const Notification& notification);
  void TakeStacksOf(const TakeStacks& take);
  void OnStacksTaken(const TakeStacks& take);

  AsioLoop& loop_;
  const std::shared_ptr<const AgentOptions> options_;  // With a start that may never end.
  std::unique_ptr<SyncChannel> channel_;
  std::function<void(const Exit&)> on_exit_;
  AgentState state_;
  LoopTimer timer_;
  ProcessRunner runner_;
  LoopTimer slow_start_;
  std::string start_waits_for_;  // Told to people; empty: it does not take long.
  NotifySockets notify_;
  std::shared_ptr<GenerationPlan> plan_;  // Of the last start; its sockets' files go with it.
  std::uint32_t starts_ = 0;
  LeftBehind left_behind_;
  StackTaker stack_taker_;
  std::unique_ptr<TimerWatchdog> watchdog_;  // TORCHELASTIC_ENABLE_FILE_TIMER=1 alone.
  NodeStores store_;
  std::string addresses_;  // Of this node, as last looked up.
  WorldId peers_of_;       // The world last told to run,
  std::string peers_;      // and the addresses of its nodes.
  std::map<std::string, std::string> environment_;
  std::vector<bool> said_hello_;
  std::vector<std::int64_t> pids_;
  LastAttempt last_attempt_;
  std::map<std::string, std::uint32_t> attempts_;  // "attempt_<n>" -> times used.
};

}  // namespace ddprun
