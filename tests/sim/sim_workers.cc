#include "tests/sim/sim_workers.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/watch/remains_reader.h"
#include "common/exit_code.h"
#include "rendezvous/core/fencing.h"
#include "tests/sim/fiber.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kBeat{250};
constexpr Duration kFreeing{1'000};                  // The memory of a worker that dies.
constexpr Duration kFreeingFenced = kKillTakes / 3;  // The coordinator relies on it.
constexpr std::int64_t kUnixMs = 1'700'000'000'000;  // Where the simulated time begins.

}  // namespace

// ---- What the driver sees ----
std::filesystem::path SimWorkers::Start(const Placement& placement) {
  Random& random = simulation_.random;
  const Conduct& conduct = simulation_.setup.conduct;
  const LiveWorkers started{
      {machine_.node(), machine_.agent().incarnation}, placement, machine_.config().workers};
  if (simulation_.setup.standing) {
    laws_.OnTold(simulation_.machines.back()->server().state(), machine_.host(), started);
  }
  laws_.OnSpawn(machine_.host(), started);
  laws_.BreakIf(!machine_.checks().fit(), machine_.host(),
                " starts workers though its check has not passed");
  ++batch_;
  placement_ = placement;
  workers_.clear();
  untold_.clear();
  starting_ = loop_.Now();
  listened_to_ = true;
  const Duration lasts =
      random.Chance(conduct.slow_start) ? random.Between(1s, 30s) : random.Between(0ms, 20ms);
  After(lasts, [this, fails = random.Chance(conduct.spawn_fails)] {
    Arrive([this, fails] { OnStarted(fails); });
  });
  return {};
}

void SimWorkers::OnStarted(bool fails) {
  if (!std::exchange(starting_, std::nullopt)) {
    return;  // It was given up.
  }
  if (fails) {
    placement_.reset();
    laws_.OnGone(machine_.host());
    events_.started(
        Error{ErrorKind::kInvalid, "cannot execute 'train': No such file or directory"});
    return;
  }
  BeginWorkers();
  events_.started({});
}

void SimWorkers::BeginWorkers() {
  Random& random = simulation_.random;
  const Setup& setup = simulation_.setup;
  const Conduct& conduct = setup.conduct;
  for (std::uint32_t i = 0; i < machine_.config().workers; ++i) {
    Worker worker;
    worker.local_rank = i;
    worker.pid = static_cast<std::int64_t>(100 * batch_ + i);
    worker.ignores_term = setup.program == Program::kHanging || random.Chance(conduct.ignores_term);
    worker.term_delay = random.Between(1ms, conduct.slow_exit);
    const bool stuck = random.Chance(conduct.stuck);
    worker.kill_delay = stuck ? random.Between(10ms, 15s) : random.Between(1ms, 20ms);
    if (stuck) {
      laws_.OnStuck(machine_.host());
    }
    workers_.push_back(worker);
  }
  for (Worker& worker : workers_) {
    After(random.Between(5ms, 300ms), [this, &worker] { Join(worker); });
    if (setup.hang_timeout > 0ms && random.Chance(conduct.hangs)) {
      After(random.Between(1ms, 2 * setup.work), [this, &worker] { Hang(worker); });
    }
    if (random.Chance(conduct.fails)) {
      const ExitStatus status =
          random.Chance(0.5) ? ExitStatus(Killed{SIGSEGV}) : ExitStatus(Exited{3});
      EndSoon(worker, random.Between(1ms, 2 * setup.work), status);
    }
  }
}

// True: there was one, and nothing of it is left soon.
bool SimWorkers::GiveUpStart() {
  if (!std::exchange(starting_, std::nullopt)) {
    return false;
  }
  Random& random = simulation_.random;
  // A process that is being made ends when the step that hangs is over, and runs nothing.
  const bool hangs = random.Chance(0.2);
  if (hangs) {
    laws_.OnStuck(machine_.host());
  }
  After(hangs ? random.Between(0ms, 3s) : 0ms, [this] { AllGone(); });
  return true;
}

void SimWorkers::SignalAll(int signal, bool /*end_at_once*/) {
  const bool ends = signal == SIGTERM || signal == SIGINT;
  if ((ends || signal == SIGHUP || signal == SIGQUIT) && GiveUpStart()) {
    return;
  }
  for (Worker& worker : workers_) {
    if (worker.alive && ends && !worker.ignores_term) {
      const bool saves = simulation_.setup.evicted && worker.said_hello;
      EndSoon(worker, worker.term_delay,
              saves ? ExitStatus(Exited{kExitRestart}) : ExitStatus(Killed{signal}));
    }
  }
}

void SimWorkers::KillAll() {
  if (GiveUpStart()) {
    return;
  }
  for (Worker& worker : workers_) {
    if (worker.alive && !worker.dying) {
      EndSoon(worker, worker.kill_delay, Killed{SIGKILL});
      worker.dying = true;
    }
  }
}

void SimWorkers::TakeStacks(const std::vector<std::uint32_t>& /*local_ranks*/, Duration /*limit*/,
                            std::function<void()> done) {
  // A tool may take longer than the core waits for it, where a coordinator waits for that. Else all
  // workers must be gone, and that be heard, before the coordinator takes the node for lost.
  const Duration until_lost = StopGraceOf(simulation_.setup) + simulation_.setup.long_lease;
  const Duration most =
      simulation_.setup.slow ? kEvidenceTime + kBeat : until_lost - kFreeing - 2 * kBeat;
  After(simulation_.random.Between(10ms, most), [this, done = std::move(done)] {
    if (placement_) {
      Arrive(done);
    }
  });
}

void SimWorkers::CheckHeard(const AgentEvent& event) {
  if (const auto* const ended = std::get_if<WorkerEnded>(&event)) {
    if (untold_.empty() || untold_.front().local_rank != ended->local_rank) {
      laws_.Break(machine_.host(), " hears of its workers' ends in another order");
      return;
    }
    laws_.BreakIf(untold_.front().said_hello != ended->said_hello, machine_.host(),
                  " does not know whether a worker has said hello");
    untold_.pop_front();
  } else {
    laws_.BreakIf(std::holds_alternative<ddprun::AllGone>(event) && !untold_.empty(),
                  machine_.host(), " is told that all are gone before how one ended");
  }
}

// ---- How they work ----
void SimWorkers::Join(Worker& worker) {
  if (!worker.alive) {
    return;
  }
  worker.joined = true;
  const Setup& setup = simulation_.setup;
  const bool beats = setup.hang_timeout > 0ms;
  if (setup.program == Program::kTrainer || setup.evicted || simulation_.training) {
    Say(worker, {});
  }
  simulation_.WorkerJoined(machine_, *placement_, RankOf(worker));
  if (setup.slow) {
    BeginWorkload(worker);
    return;
  }
  if (setup.asks_again) {
    EndSoon(worker, simulation_.random.Between(1ms, setup.work), Exited{kExitRestart});
  }
  if (beats) {
    Beat(worker);
  }
}

void SimWorkers::BeginWorkload(Worker& worker) {
  simulation_.WorkloadOf(placement_->world_id, placement_->world_size)
      .Join(
          RankOf(worker),
          [this, &worker](WorkerWord word) {
            worker.said_hello |= word.ready || word.step;
            word.local_rank = worker.local_rank;
            Arrive([this, word] { events_.spoke(word); });
          },
          [this, &worker](Duration lasts) { EndSoon(worker, lasts, Exited{0}); });
}

// Steps like a program whose ranks meet in a collective, and says so.
void SimWorkers::Beat(Worker& worker) {
  if (!worker.alive || worker.dying) {
    return;
  }
  if (!worker.hung) {
    Say(worker, simulation_.job(placement_->world_id).Step(RankOf(worker)));
  }
  After(kBeat, [this, &worker] { Beat(worker); });
}

void SimWorkers::Hang(Worker& worker) {
  if (!worker.alive || worker.dying || !worker.said_hello) {
    return;  // There is no promise to find one that may not speak the protocol at all.
  }
  worker.hung = worker.ignores_term = true;
  simulation_.job(placement_->world_id).hung = true;
  machine_.Tell("(rank ", RankOf(worker), " hangs)");
}

// ---- How they end ----
void SimWorkers::EndAWorker(std::size_t n, ExitStatus status) {
  std::vector<Worker*> living;
  for (Worker& worker : workers_) {
    if (worker.alive) {
      living.push_back(&worker);
    }
  }
  if (!living.empty()) {
    EndSoon(*living[n % living.size()], 0ms, status);
  }
}

// A worker that has not come yet finds out when it comes.
void SimWorkers::PeerDied(WorldId world) {
  const Program program = simulation_.setup.program;
  if (!Host(world) || (program != Program::kTrainer && program != Program::kPlain)) {
    return;
  }
  for (Worker& worker : workers_) {
    if (worker.joined && !worker.hung) {
      EndSoon(worker, simulation_.random.Between(1ms, 50ms),
              Exited{program == Program::kTrainer ? kExitRestart : 1});
    }
  }
}

void SimWorkers::EndSoon(Worker& worker, Duration delay, ExitStatus status) {
  if (worker.dying) {
    return;
  }
  After(delay, [this, &worker, status] {
    const bool killed = status == ExitStatus(Killed{SIGKILL});
    if (killed || (!worker.dying && !worker.hung)) {
      Die(worker, status);
    }
  });
}

Duration SimWorkers::LongestFreeing() const {
  return simulation_.setup.spec.fence_after > 0ms ? kFreeingFenced : kFreeing;
}

// The agent may hear at once that a worker dies, and how it ended only once its memory was freed.
void SimWorkers::Die(Worker& worker, ExitStatus status) {
  Random& random = simulation_.random;
  const double slow = simulation_.setup.conduct.slow_death;
  if (slow == 0 || Succeeded(status) || !random.Chance(slow)) {
    EndWorker(worker, status);
    return;
  }
  if (!worker.alive || std::exchange(worker.exiting, true)) {
    return;
  }
  worker.dying = true;
  Arrive([this, local = worker.local_rank] { events_.dying(local); });
  After(random.Between(0ms, LongestFreeing()),
        [this, &worker, status] { EndWorker(worker, status); });
}

void SimWorkers::EndWorker(Worker& worker, ExitStatus status) {
  if (!std::exchange(worker.alive, false)) {
    return;
  }
  const std::uint32_t rank = RankOf(worker);
  machine_.Tell("(rank ", rank, " ends: ", Describe(status), ")");
  const Setup& setup = simulation_.setup;
  if (setup.slow) {
    simulation_.WorkloadOf(placement_->world_id, placement_->world_size).Leave(rank);
  }
  if (setup.tells_steps && setup.hang_timeout == 0ms) {
    Say(worker, simulation_.StepOf(placement_->world_id));
  }
  const std::int64_t now =
      kUnixMs + std::chrono::floor<Duration>(simulation_.Now().time_since_epoch()).count();
  WorkerEnd end{worker.local_rank, worker.pid, status, now, {}};
  if (!Succeeded(status)) {
    end.left = FilesOfOne();
  }
  if (listened_to_) {
    untold_.push_back({worker.local_rank, worker.said_hello});
  }
  Arrive([this, end] { events_.ended(end); });
  simulation_.WorkerDied(machine_, placement_->world_id, rank, Succeeded(status));
  if (!AnyWorker()) {
    After(simulation_.random.Chance(0.1) ? simulation_.random.Between(0ms, LongestFreeing()) : 2ms,
          [this] { AllGone(); });
  }
}

// On a disk that may be slow.
LeftFiles SimWorkers::FilesOfOne() {
  Random& random = simulation_.random;
  const Duration takes = random.Chance(simulation_.setup.conduct.slow_files)
                             ? random.Between(1ms, 2 * RemainsReader::kLimit)
                             : 0ms;
  return {"/logs",
          [takes] {
            if (takes > 0ms) {
              Fiber::Sleep(takes);
            }
            return WorkerRemains{};
          },
          {}};
}

void SimWorkers::AllGone() {
  if (!std::exchange(placement_, std::nullopt)) {
    return;
  }
  laws_.OnGone(machine_.host());
  machine_.Tell("(its workers are gone)");
  Arrive([this] { events_.all_gone(); });
  machine_.OnWorkersGone();
}

}  // namespace ddprun::sim
