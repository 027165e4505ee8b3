// One machine of a simulation: an agent (the real core and its driver's duties), its workers, and
// the guard that ends them when the agent dies.
//
// A new agent starts only after every worker of the last one is gone, as the slot lock demands.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/node_agent.h"
#include "rendezvous/core/coordinator.h"

namespace ddprun::sim {

class Candidate;
class Server;
class Simulation;
enum class Way { kToServer, kToMachine };

class Machine {
 public:
  Machine(Simulation& simulation, std::uint32_t index);

  // Its process may carry the server too; that lives and dies with it.
  void Carry(Candidate& candidate) {
    candidate_ = &candidate;
    server_ = nullptr;
  }
  // A server alone: no agent of the run is on this machine.
  void LeaveOutAgent() { bare_ = true; }
  bool bare() const { return bare_; }
  // Whom its agent speaks to from now on; a call that is open is sent there anew. Null: nobody.
  void Follow(Server* server);
  const Server* server() const { return server_; }

  std::uint32_t index() const { return index_; }
  const std::string& host() const { return config_.host; }
  const NodeId& node() const { return config_.node; }
  bool alive() const { return agent_.has_value(); }
  // Its agent has ended by itself, as told or asked: no new one comes.
  bool ended() const { return ended_; }
  const AgentState& agent() const { return *agent_; }
  std::optional<Exit> exit() const { return exit_; }

  // ---- What the plan does to it ----
  void Start();                 // Waits until the last agent's workers are gone.
  void Crash(bool noticed);     // The agent dies; the guard ends the workers.
  void PowerOff(bool noticed);  // Everything is gone at once.
  void Pause();
  void Resume();
  void SetLink(bool up, bool noticed);
  // Its process is: the connection is reset, which may go unnoticed.
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
  // Ends the n-th living worker (modulo their number), if there is one.
  void EndAWorker(std::size_t n, ExitStatus status);
  // The rank's own doing, after its hello.
  void EndRank(WorldId world, std::uint32_t rank, ExitStatus status);
  // It makes no further step.
  void HangAWorker(std::size_t n);

  // ---- The simulated program ----
  void FinishWorkers(WorldId world);
  void PeerDied(WorldId world);

 private:
  struct Worker {
    std::uint32_t local_rank = 0;
    std::int64_t pid = 0;
    bool alive = true;
    bool ignores_term = false;
    bool dying = false;  // KILL has reached it.
    bool said_hello = false;
    bool hung = false;
    Duration term_delay{0};
    Duration kill_delay{0};
  };
  struct Call {
    NodeKey key;
    std::uint64_t sequence = 0;
    bool open = false;
    std::uint64_t server_life = 0;
    Server* to = nullptr;
    std::uint64_t attempt = 0;  // It was sent to another server before.
  };

  void Feed(const AgentEvent& event);
  void Handle(const AgentEvent& event);
  void Arm();
  void CarryOut(const AgentEffect& effect);
  void Send(const SendReport& send);
  void Forward();
  void OnReply(std::uint64_t life, const Call& call, const std::optional<SyncReply>& reply);
  void FailCall(std::uint64_t life, const Call& call, const std::string& text);
  void TellServerClosed(const Call& call, bool sure);
  void SpawnWorkers(const Placement& placement);
  void Beat(std::uint64_t batch, std::size_t worker);
  void Hang(std::uint64_t batch, std::size_t worker);
  void AllGone(std::uint64_t batch);
  void EndAgent();
  void SignalAll(int signal);
  void KillAll();
  void EndSoon(std::size_t worker, Duration delay, ExitStatus status, bool hello);
  void EndWorker(std::uint64_t batch, std::size_t worker, ExitStatus status, bool hello);
  bool AnyWorker() const;
  Endpoint NextStore();
  void Tell(const std::string& text);

  Simulation& simulation_;
  const std::uint32_t index_;
  Candidate* candidate_ = nullptr;
  Server* server_;
  AgentConfig config_;
  std::optional<AgentState> agent_;
  std::optional<Exit> exit_;
  bool ended_ = false;
  bool wants_start_ = false;
  bool paused_ = false;
  bool link_ = true;
  bool speaks_ = true;
  bool hears_ = true;
  bool powered_ = true;
  bool frozen_ = false;
  bool bare_ = false;
  std::deque<AgentEvent> inbox_;
  std::uint64_t life_ = 0;  // Of the agent's process: what belongs to an earlier one is void.
  std::uint64_t timer_ = 0;
  Call call_;
  SendReport sent_;          // What it carries.
  std::uint64_t batch_ = 0;  // Of workers: one per spawn.
  std::vector<Worker> workers_;
  std::optional<Placement> placement_;  // Of the workers, until all are gone.
  std::uint16_t ports_ = 0;
  std::string said_;  // The last report in words, so that repeats stay out of the transcript.
};

}  // namespace ddprun::sim
