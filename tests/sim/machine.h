// One machine of a simulation: a process with the product's agent driver in it, its workers, and
// the guard that ends them when the agent dies.
//
// Decides nothing. What is here: how calls leave the process and answers come back, and what
// happens to it. A new agent starts only after every worker of the last one is gone, as the slot
// lock demands.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/driver.h"
#include "tests/sim/process_loop.h"
#include "tests/sim/sim_stores.h"
#include "tests/sim/sim_workers.h"

namespace ddprun::sim {

class Candidate;
class Server;
class SimChannel;
class Simulation;
enum class Way { kToServer, kToMachine };

class Machine {
 public:
  Machine(Simulation& simulation, std::uint32_t index);
  ~Machine();

  // Its process may carry the server too; that lives and dies with it.
  void Carry(Candidate& candidate) { candidate_ = &candidate; }
  // A server alone: no agent of the run is on this machine.
  void LeaveOutAgent() { bare_ = true; }
  bool bare() const { return bare_; }
  // What its agent's calls go through while there is one.
  void Connect(SimChannel* connection) { connection_ = connection; }
  void Disconnect(const SimChannel* connection) {
    connection_ = connection_ == connection ? nullptr : connection_;
  }
  // On the loop that its connections belong to.
  void Arrive(std::function<void()> what);

  std::uint32_t index() const { return index_; }
  const AgentConfig& config() const { return config_; }
  const std::string& host() const { return config_.host; }
  const NodeId& node() const { return config_.node; }
  // Of an agent that has not ended by itself.
  bool alive() const { return driver_ != nullptr && !ended_; }
  const AgentState& agent() const { return driver_->state(); }
  const std::optional<Exit>& exit() const { return exit_; }
  SimWorkers& workers() { return workers_; }

  // ---- What the plan does to it ----
  void Start();                 // Waits until the last agent's workers are gone.
  void Crash(bool noticed);     // The agent dies; the guard ends the workers.
  void PowerOff(bool noticed);  // Everything is gone at once.
  void Pause();
  void Resume();
  void SetLink(bool up, bool noticed);
  bool linked() const { return link_; }
  // Its process is.
  void ServerGone(const Server& server);
  // Its agent lives, and every worker of this world that it hosts.
  bool Works(WorldId world) const;
  // One direction alone; both ends think that all is well.
  void SetWays(bool speaks, bool hears);
  bool Carries(Way way) const { return link_ && (way == Way::kToServer ? speaks_ : hears_); }
  bool powered() const { return powered_; }
  // None of its processes moves, workers included, until it is resumed.
  void Freeze();
  bool frozen() const { return frozen_; }
  void Signal(int signal);

  void OnWorkersGone();

 private:
  class Driver;
  class Channel;

  void EndAgent();
  void OnExit(const Exit& exit);
  void BeforeStep(AgentState& state, const AgentEvent& event, Time now);
  void AfterStep(const AgentEvent& event, const std::vector<AgentEffect>& effects, Time now);
  void CheckTurn();
  void TellServerClosed();
  void Tell(const std::string& text);

  Simulation& simulation_;
  const std::uint32_t index_;
  Candidate* candidate_ = nullptr;
  AgentConfig config_;
  ProcessLoop loop_;
  SimChannel* connection_ = nullptr;     // The agent's of now.
  std::unique_ptr<SimChannel> channel_;  // To the one server; unused where that moves.
  SimWorkers workers_;
  SimStores stores_;
  std::unique_ptr<AgentDriver> driver_;  // None: there is no agent.
  std::optional<Exit> exit_;
  bool ended_ = false;  // By itself, as told or asked: no new one comes.
  bool wants_start_ = false;
  bool link_ = true;
  bool speaks_ = true;
  bool hears_ = true;
  bool powered_ = true;
  bool frozen_ = false;
  bool bare_ = false;
  std::uint64_t life_ = 0;  // Of the agent's process.
  std::string said_;        // The last report in words, so that repeats stay out of the transcript.
};

}  // namespace ddprun::sim
