// One machine of a simulation: a process with the product's agent driver in it and possibly the
// server, its workers, and the guard that ends them when the process dies.
//
// Decides nothing. This header: how the process starts, ends, is killed and stands still, and the
// faults of the machine. A new process starts only after every worker of the last one is gone, as
// the slot lock demands.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver.h"
#include "rendezvous/core/failover/state.h"
#include "tests/sim/fiber.h"
#include "tests/sim/process_loop.h"
#include "tests/sim/server.h"
#include "tests/sim/sim_checks.h"
#include "tests/sim/sim_stores.h"
#include "tests/sim/sim_workers.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

class Candidate;
class SimChannel;

class Machine {
 public:
  // A disk as this machine sees it: what is asked of it hangs, or fails.
  struct Mount {
    bool answers = true;
    int error = 0;  // A number of errno's.
    Time failed;    // When something that was asked of it last did.
  };

  Machine(Simulation& simulation, std::uint32_t index);
  ~Machine();

  std::uint32_t index() const { return index_; }
  const AgentConfig& config() const { return config_; }
  const std::string& host() const { return config_.host; }
  const NodeId& node() const { return config_.node; }
  // A server alone: no agent of the run is on this machine.
  bool bare() const { return bare_; }
  // Of an agent that has not ended by itself.
  bool alive() const { return agent_ != nullptr && !ended_; }
  // Its process is.
  bool up() const { return up_; }
  std::uint64_t life() const { return life_; }
  // A task of an earlier process is void.
  std::function<void()> InThisLife(std::function<void()> what) {
    return [this, life = life_, what = std::move(what)] {
      if (life == life_) {
        what();
      }
    };
  }
  const AgentState& agent() const { return agent_->state(); }
  const std::optional<Exit>& exit() const { return exit_; }
  ProcessLoop& loop() { return loop_; }
  SimWorkers& workers() { return workers_; }
  SimChecks& checks() { return checks_; }
  Server& server() { return server_; }
  bool serves() const;
  // Its agent's calls go there, or would; none: no server is known.
  const Server* speaks_to() const;
  // Its agent lives, and every worker of this world that it hosts.
  bool Works(WorldId world) const;

  // ---- What the plan does to it ----
  void Start();              // Waits until the last process's workers are gone.
  void Crash(bool noticed);  // The process dies; the guard ends the workers.
  // Everything is gone at once.
  void PowerOff(bool noticed) {
    if (up_) {
      Tell("(loses power)");
      EndProcess(noticed);
      held_.reset();
      powered_ = false;
      workers_.OnPowerOff();
    }
  }
  bool powered() const { return powered_; }
  void Pause() {
    if (up_ && !loop_.paused()) {
      Tell("(stands still)");
      simulation_.laws.OnPause(config_.host);
      disturbed_ = simulation_.Now();
      loop_.Pause();
    }
  }
  void Resume();
  // None of its processes moves, workers included, until it is resumed.
  void Freeze() {
    frozen_ = true;
    Pause();
  }
  bool frozen() const { return frozen_; }
  // The same, and its clock stands.
  void Suspend() {
    if (up_ && !suspended_) {
      suspended_ = true;
      Freeze();
      loop_.StopClock();
      simulation_.laws.OnPause(config_.host);
    }
  }
  // It may believe what is not so any more.
  bool deluded() const { return simulation_.Now() < deluded_until_; }
  void Signal(int signal) {
    if (alive()) {
      Tell("(gets ", SignalName(signal), ")");
      loop_.Arrive([this, signal] { agent_->OnSignal(signal); });
    }
  }
  void SetLink(bool up, bool noticed);
  bool linked() const { return link_; }
  // One direction alone; both ends think that all is well.
  void SetWays(bool speaks, bool hears) {
    if (speaks != speaks_ || hears != hears_) {
      Tell(!speaks ? "(cannot speak)" : !hears ? "(hears nothing)" : "(speaks and hears again)");
    }
    speaks_ = speaks;
    hears_ = hears;
  }
  bool speaks() const { return link_ && speaks_; }
  bool hears() const { return link_ && hears_; }
  void SetDirectory(bool answers) {
    directory.answers = answers;
    disturbed_ = simulation_.Now();
  }
  // The process or its directory last stood still, or continued.
  Time disturbed() const { return disturbed_; }
  // Of its wall.
  std::uint64_t WallClock() const {
    return static_cast<std::uint64_t>(simulation_.Now().time_since_epoch() / 1ms + clock_);
  }

  // The guard's knowledge of its agent's claim.
  std::optional<HeldClaim>& held() { return held_; }

  // ---- What its parts tell it ----
  void OnWorkersGone();
  // Nothing in it has anything left to do. Not from inside the loop.
  void EndProcess(bool noticed);
  // Its agent's calls go through it while there is one.
  void Connect(SimChannel* connection) { connection_ = connection; }
  void Disconnect(const SimChannel* connection) {
    connection_ = connection_ == connection ? nullptr : connection_;
  }
  void ServerGone(const Server& server);
  template <class... Parts>
  void Tell(const Parts&... parts) {
    simulation_.Tell(config_.host, parts...);
  }

  Mount directory;  // Of claims.
  Mount checkpoints;

 private:
  class Driver;

  void BeginCheck(std::function<void(std::string)> verdict) {
    checks_.Begin(
        std::move(verdict),
        [this](const std::string& why) {
          agent_->OnHostLooked({{}, why});
        },
        [this](Duration delay, auto comes) {
          simulation_.event_queue.After(delay, InThisLife([this, comes] { loop_.Arrive(comes); }));
        });
  }

  void WakeUp() {
    if (std::exchange(suspended_, false)) {
      loop_.StartClock();
      deluded_until_ = simulation_.Now() + 2 * simulation_.LongestLease();
    }
  }
  void BeginRelease();
  void EndRelease(std::uint64_t release);
  void OnExit(const Exit& exit);
  void BeforeStep(const AgentEvent& event, Time now);
  void AfterStep(const AgentEvent& event, const std::vector<AgentEffect>& effects, Time now);
  void CheckAfterIteration();

  Simulation& simulation_;
  const std::uint32_t index_;
  const bool bare_;
  const std::int64_t clock_;  // Of its wall, beside the true one.
  AgentConfig config_;
  ProcessLoop loop_;
  Server server_;
  SimWorkers workers_;
  SimChecks checks_;
  SimStores stores_;
  SimChannel* connection_ = nullptr;      // The agent's of now.
  std::unique_ptr<Candidate> candidate_;  // None: the server's part does not move.
  std::unique_ptr<AgentDriver> agent_;
  std::optional<Exit> exit_;
  bool up_ = false;
  bool ended_ = false;  // The agent, by itself, as directed or asked: no new one comes.
  bool wants_start_ = false;
  bool link_ = true;
  bool speaks_ = true;
  bool hears_ = true;
  bool powered_ = true;
  bool frozen_ = false;
  bool suspended_ = false;
  Time deluded_until_;
  std::optional<HeldClaim> held_;
  std::vector<std::unique_ptr<Fiber>> releases_;  // The last one holds the slot's lock,
  bool releasing_ = false;                        // if this is so.
  Time disturbed_;
  std::uint64_t life_ = 0;
  std::string said_;  // The last report in words, so that repeats stay out of the transcript.
};

}  // namespace ddprun::sim
