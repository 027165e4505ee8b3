// The simulated processes of a machine: how their start lasts, how they work, end, resist and
// vanish. They outlive an agent that dies, until the guard comes.
//
// Checks the reports to the agent's core: each worker's end, in order, before the news that all are
// gone, and whether each had said hello.
#pragma once

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/node_agent.h"
#include "agent/node_workers.h"
#include "tests/sim/process_loop.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

class Machine;

class SimWorkers final : public NodeWorkers {
 public:
  // `loop`: of the agent's process.
  SimWorkers(Simulation& simulation, Machine& machine, ProcessLoop& loop)
      : simulation_(simulation), laws_(simulation.laws), machine_(machine), loop_(loop) {}

  // ---- What the driver sees ----
  void Listen(WorkersEvents events) override { events_ = std::move(events); }
  std::filesystem::path Start(const Placement& placement) override;
  std::string Starting() const override { return starting_ ? "opening '/logs'" : ""; }
  std::optional<Time> starting_since() const { return starting_; }
  void SignalAll(int signal, bool end_at_once) override;
  void KillAll() override;
  void TakeStacks(const std::vector<std::uint32_t>& local_ranks, Duration limit,
                  std::function<void()> done) override;

  // ---- What happens to the machine ----
  bool left() const { return placement_.has_value(); }
  bool Host(WorldId world) const { return placement_ && placement_->world_id == world; }
  // No worker listens any more.
  void OnAgentDied() {
    listened_to_ = false;
    events_ = {};
  }
  // The guard has found out after this long, and ends what is left.
  void Guard(Duration after) {
    After(after, [this] {
      if (!listened_to_ && placement_) {
        KillAll();
      }
    });
  }
  void OnPowerOff() {
    GiveUpStart();
    for (Worker& worker : workers_) {
      EndWorker(worker, Killed{SIGKILL});
    }
  }
  // Before each step of the core.
  void CheckHeard(const AgentEvent& event);

  // ---- What the plan does to them ----
  // Ends the n-th living worker (modulo their number), if there is one.
  void EndAWorker(std::size_t n, ExitStatus status);
  void HangAWorker(std::size_t n) {
    if (!workers_.empty()) {
      Hang(workers_[n % workers_.size()]);
    }
  }

  // ---- The simulated program ----
  // The rank's own doing, after its hello.
  void EndRank(WorldId world, std::uint32_t rank, ExitStatus status) {
    if (Host(world)) {
      EndSoon(workers_.at(rank - placement_->first_rank), 0ms, status);
    }
  }
  void FinishWorkers(WorldId world) {
    if (Host(world)) {
      for (Worker& worker : workers_) {
        EndSoon(worker, simulation_.random.Between(0ms, 100ms), Exited{0});
      }
    }
  }
  void PeerDied(WorldId world);

 private:
  struct Worker {
    std::uint32_t local_rank = 0;
    std::int64_t pid = 0;
    bool alive = true;
    bool ignores_term = false;
    bool dying = false;    // KILL has reached it, or it is exiting.
    bool exiting = false;  // It runs no more, and its memory is being freed.
    bool joined = false;
    bool said_hello = false;
    bool hung = false;
    Duration term_delay{0};
    Duration kill_delay{0};
  };
  struct End {
    std::uint32_t local_rank = 0;
    bool said_hello = false;
  };

  // Unless a newer generation has been started by then.
  void After(Duration delay, std::function<void()> what) {
    simulation_.event_queue.After(delay, [this, batch = batch_, what = std::move(what)] {
      if (batch == batch_) {
        what();
      }
    });
  }
  // Likewise, where the agent lives.
  void Arrive(std::function<void()> what) {
    if (listened_to_) {
      loop_.Arrive([this, batch = batch_, what = std::move(what)] {
        if (batch == batch_) {
          what();
        }
      });
    }
  }
  void OnStarted(bool fails);
  void BeginWorkers();
  bool GiveUpStart();
  void Join(Worker& worker);
  void Say(Worker& worker, std::optional<std::uint64_t> step) {
    worker.said_hello = true;
    Arrive([this, local = worker.local_rank, step] {
      events_.spoke({.local_rank = local, .ready = true, .step = step});
    });
  }
  void BeginWorkload(Worker& worker);
  void Beat(Worker& worker);
  void Hang(Worker& worker);
  Duration LongestFreeing() const;
  void EndSoon(Worker& worker, Duration delay, ExitStatus status);
  void Die(Worker& worker, ExitStatus status);
  void EndWorker(Worker& worker, ExitStatus status);
  LeftFiles FilesOfOne();
  void AllGone();
  bool AnyWorker() const { return std::ranges::any_of(workers_, &Worker::alive); }
  std::uint32_t RankOf(const Worker& worker) const {
    return placement_->first_rank + worker.local_rank;
  }

  Simulation& simulation_;
  Laws& laws_;
  Machine& machine_;
  ProcessLoop& loop_;
  WorkersEvents events_;
  bool listened_to_ = false;  // The agent lives that started them.
  std::uint64_t batch_ = 0;   // One per start: what belongs to an earlier one is void.
  std::optional<Time> starting_;
  std::vector<Worker> workers_;
  std::optional<Placement> placement_;  // Until all are gone.
  std::deque<End> untold_;              // Of the agent that lives.
};

}  // namespace ddprun::sim
