// The simulated processes of a machine: how they work, end, resist and vanish.
#include <algorithm>
#include <utility>

#include "tests/sim/machine.h"
#include "tests/sim/server.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr int kSigInt = 2;
constexpr int kSigKill = 9;
constexpr int kSigSegv = 11;
constexpr int kSigTerm = 15;
constexpr int kRestartMe = 75;
constexpr Duration kBeat{250};

}  // namespace

void Machine::SpawnWorkers(const Placement& placement) {
  Random& random = simulation_.random;
  const Conduct& conduct = simulation_.setup.conduct;
  const NodeKey key{config_.node, agent_->incarnation};
  const LiveWorkers spawned{key, placement, config_.workers};
  if (candidate_ == nullptr) {
    simulation_.laws.OnTold(server_->state(), config_.host, spawned);
  }
  simulation_.laws.OnSpawn(config_.host, spawned);
  const std::uint64_t batch = ++batch_;
  placement_ = placement;
  workers_.clear();
  if (random.Chance(conduct.spawn_fails)) {
    simulation_.agenda.After(random.Between(Duration{0}, Duration{20}), [this, batch] {
      if (batch == batch_ && placement_) {
        const Generation generation = placement_->generation;
        placement_.reset();
        simulation_.laws.OnGone(config_.host);
        Feed(SpawnFailed{generation, "cannot execute 'train': No such file or directory",
                         NextStore()});
      }
    });
    return;
  }
  for (std::uint32_t i = 0; i < config_.workers; ++i) {
    Worker worker;
    worker.local_rank = i;
    worker.pid = static_cast<std::int64_t>(100 * batch + i);
    worker.ignores_term =
        simulation_.setup.program == Program::kHanging || random.Chance(conduct.ignores_term);
    worker.term_delay = random.Between(Duration{1}, conduct.slow_exit);
    worker.kill_delay = random.Chance(conduct.stuck)
                            ? random.Between(Duration{10}, Duration{15'000})
                            : random.Between(Duration{1}, Duration{20});
    workers_.push_back(worker);
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    simulation_.agenda.After(random.Between(Duration{5}, Duration{300}), [this, batch, i] {
      if (batch == batch_ && workers_[i].alive) {
        simulation_.WorkerJoined(*this, *placement_,
                                 placement_->first_rank + workers_[i].local_rank);
        if (simulation_.setup.hang_timeout > Duration{0}) {
          workers_[i].said_hello = true;
          Beat(batch, i);
        }
      }
    });
    if (simulation_.setup.hang_timeout > Duration{0} && random.Chance(conduct.hangs)) {
      simulation_.agenda.After(random.Between(Duration{1}, 2 * simulation_.setup.work),
                               [this, batch, i] { Hang(batch, i); });
    }
    if (random.Chance(conduct.fails)) {
      const ExitStatus status =
          random.Chance(0.5) ? ExitStatus(Killed{kSigSegv}) : ExitStatus(Exited{3});
      EndSoon(i, random.Between(Duration{1}, 2 * simulation_.setup.work), status, false);
    }
  }
}

// Steps like a program whose ranks meet in a collective, and says so.
void Machine::Beat(std::uint64_t batch, std::size_t index) {
  if (batch != batch_ || !workers_[index].alive || workers_[index].dying) {
    return;
  }
  const Worker& worker = workers_[index];
  if (!worker.hung) {
    const std::uint64_t step =
        simulation_.WorkerSteps(placement_->world_id, placement_->first_rank + worker.local_rank);
    Feed(WorkerSpoke{worker.local_rank, true, step, {}, {}});
  }
  simulation_.agenda.After(kBeat, [this, batch, index] { Beat(batch, index); });
}

void Machine::Hang(std::uint64_t batch, std::size_t index) {
  if (batch != batch_ || !workers_[index].alive || workers_[index].dying) {
    return;
  }
  Worker& worker = workers_[index];
  if (simulation_.setup.hang_timeout > Duration{0} && !worker.said_hello) {
    return;  // Nobody promises to find that one: it may not speak the protocol at all.
  }
  worker.hung = worker.ignores_term = true;
  simulation_.WorkerHangs(placement_->world_id);
  Tell("(rank " + std::to_string(placement_->first_rank + worker.local_rank) + " hangs)");
}

void Machine::HangAWorker(std::size_t n) {
  if (!workers_.empty()) {
    Hang(batch_, n % workers_.size());
  }
}

void Machine::EndAWorker(std::size_t n, ExitStatus status) {
  std::vector<std::size_t> living;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].alive) {
      living.push_back(i);
    }
  }
  if (!living.empty()) {
    EndSoon(living[n % living.size()], Duration{0}, status, false);
  }
}

void Machine::EndRank(WorldId world, std::uint32_t rank, ExitStatus status) {
  if (placement_ && placement_->world_id == world) {
    EndSoon(rank - placement_->first_rank, Duration{0}, status, true);
  }
}

void Machine::FinishWorkers(WorldId world) {
  if (!placement_ || placement_->world_id != world) {
    return;
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    EndSoon(i, simulation_.random.Between(Duration{0}, Duration{100}), Exited{0}, true);
  }
}

void Machine::PeerDied(WorldId world) {
  const Program program = simulation_.setup.program;
  if (!placement_ || placement_->world_id != world ||
      (program != Program::kTrainer && program != Program::kPlain)) {
    return;
  }
  const bool trainer = program == Program::kTrainer;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].hung) {
      continue;  // It does not see that either.
    }
    EndSoon(i, simulation_.random.Between(Duration{1}, Duration{50}),
            Exited{trainer ? kRestartMe : 1}, trainer);
  }
}

void Machine::SignalAll(int signal) {
  const bool saves = simulation_.setup.evicted;
  const ExitStatus status = saves ? ExitStatus(Exited{kRestartMe}) : Killed{signal};
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const bool ends = signal == kSigTerm || signal == kSigInt;
    if (workers_[i].alive && ends && !workers_[i].ignores_term) {
      EndSoon(i, workers_[i].term_delay, status, saves);
    }
  }
}

void Machine::KillAll() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].alive && !workers_[i].dying) {
      EndSoon(i, workers_[i].kill_delay, Killed{kSigKill}, false);
      workers_[i].dying = true;
    }
  }
  if (!AnyWorker() && placement_ && !agent_) {
    AllGone(batch_);  // They had ended before the agent died.
  }
}

void Machine::EndSoon(std::size_t worker, Duration delay, ExitStatus status, bool hello) {
  if (workers_[worker].dying) {
    return;
  }
  simulation_.agenda.After(delay, [this, batch = batch_, worker, status, hello] {
    const bool killed = status == ExitStatus(Killed{kSigKill});
    const bool ends_itself = !workers_[worker].dying && !workers_[worker].hung;
    if (batch == batch_ && (killed || ends_itself)) {
      EndWorker(batch, worker, status, hello);
    }
  });
}

void Machine::EndWorker(std::uint64_t batch, std::size_t index, ExitStatus status, bool hello) {
  if (batch != batch_ || !workers_[index].alive) {
    return;
  }
  Worker& worker = workers_[index];
  worker.alive = false;
  const std::uint32_t rank = placement_->first_rank + worker.local_rank;
  Tell("(rank " + std::to_string(rank) + " ends: " + Describe(status) + ")");
  if (simulation_.setup.tells_steps && simulation_.setup.hang_timeout == Duration{0}) {
    Feed(WorkerSpoke{worker.local_rank, true, simulation_.StepOf(placement_->world_id), {}, {}});
  }
  Feed(WorkerEnded{placement_->generation, worker.local_rank, worker.pid, status, hello, "", {}});
  simulation_.WorkerDied(*this, placement_->world_id, rank, Succeeded(status));
  if (AnyWorker()) {
    return;
  }
  const Duration drain = simulation_.random.Chance(0.1)
                             ? simulation_.random.Between(Duration{0}, Duration{1'000})
                             : Duration{2};
  simulation_.agenda.After(drain, [this, batch] { AllGone(batch); });
}

void Machine::AllGone(std::uint64_t batch) {
  if (batch != batch_ || !placement_) {
    return;
  }
  const Generation generation = placement_->generation;
  placement_.reset();
  simulation_.laws.OnGone(config_.host);
  Feed(ddprun::AllGone{generation, NextStore()});
  if (wants_start_) {
    Start();
  }
}

}  // namespace ddprun::sim
