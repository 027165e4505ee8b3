// Feeds the node agent's core with what happens on this node, and carries out its effects: calls
// to the rendezvous, workers, signals, the generation's store.
//
// No judgement here: agent/core decides. Lives on the loop of the agent process. Its channel,
// workers, stores and random numbers come from its creator, the product or a simulation.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/node_agent.h"
#include "agent/node_stores.h"
#include "agent/node_workers.h"
#include "agent/watch/remains_reader.h"
#include "common/loop.h"
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
  bool stopped_by_us = false;
};

// The generation that this node ran last.
struct LastAttempt {
  std::filesystem::path directory;  // Has <local rank>/ of every worker.
  Generation generation;
  std::uint32_t restarts_used = 0;
  Time started;
  std::vector<EndedWorker> failed;        // In wait order, with workers that ddprun stopped.
  std::vector<std::uint32_t> ended_well;  // Ranks here that ended with 0 before a stop.
};

// The objects that an agent's driver uses. The workers and stores outlive it.
struct AgentParts {
  std::unique_ptr<SyncChannel> channel;
  NodeWorkers& workers;
  NodeStores& stores;
  std::function<Incarnation()> draw;           // Draws a random incarnation.
  std::function<std::string()> own_addresses;  // The node's addresses; unset: none is reported.
  std::function<void(const Exit&)> on_exit;    // Called once, when the agent's part has ended.
  // Runs --host-check and --node-check off the loop. Calls back once with the reason why the node
  // is unfit; "": it is fit.
  std::function<void(CheckCause, std::function<void(std::string)>)> check = nullptr;
  std::function<void(const ClockOffset&)> clock = nullptr;  // Gets the server's clock, if set.
};

class AgentDriver {
 public:
  AgentDriver(Loop& loop, AgentConfig config, AgentParts parts);
  virtual ~AgentDriver() = default;
  AgentDriver(const AgentDriver&) = delete;
  AgentDriver& operator=(const AgentDriver&) = delete;

  // Offers the first store port and speaks to the rendezvous. An error: no port could be bound.
  Result<void> Start();

  void OnSignal(int signal) { Feed(SignalArrived{signal, !parts_.workers.Starting().empty()}); }
  void OnJobEnd(const JobEndKnown& known) { Feed(known); }
  void OnStoreRefuses(const StoreRefuses& refuses) { Feed(refuses); }
  void OnHostLooked(const HostLooked& looked) { Feed(looked); }

  const LastAttempt& last_attempt() const { return last_attempt_; }
  const AgentState& state() const { return state_; }
  const AgentConfig& config() const { return config_; }

 protected:
  // The core's Step, and the only one: a simulation looks at the state before it and after it.
  virtual std::vector<AgentEffect> TakeStep(AgentState& state, const AgentEvent& event, Time now);

 private:
  void Feed(const AgentEvent& event);
  void CarryOut(const AgentEffect& effect);
  void Send(const SendReport& send);
  void SpawnWorkers(const Placement& placement);
  void WatchStart();
  bool EndStart();
  void OnStarted(const Result<void>& started);
  void OnSpoke(const WorkerWord& word);
  void OnWorkerEnded(WorkerEnd end);
  void OnAllGone();
  void ShowLiveLine();
  const std::string& OwnAddresses(Hosting hosting);
  void NotePeers(const Result<SyncReply>& reply);

  Loop& loop_;
  const AgentConfig config_;
  AgentParts parts_;
  AgentState state_;
  LoopTimer timer_;
  LoopTimer slow_start_;
  std::string start_waits_for_;  // Shown to people; empty: it does not take long.
  RemainsReader remains_;
  std::string addresses_;  // Of this node, as last looked up.
  WorldId peers_of_;       // The world of the last directive to run.
  std::string peers_;      // The addresses of that world's nodes.
  std::vector<bool> said_hello_;
  LastAttempt last_attempt_;
};

}  // namespace ddprun
