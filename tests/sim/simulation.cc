#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "tests/sim/claims.h"
#include "tests/sim/machine.h"
#include "tests/sim/training.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kSavedEvery = 40;  // Steps.

}  // namespace

Simulation::Simulation(const Setup& given, std::uint64_t seed, bool words)
    : random(seed),
      setup(given),
      transcript(words),
      run_directory(std::make_unique<RunDirectory>()) {
  event_queue.At(kBegin, [] {});
  event_queue.DoNext(kBegin);
  for (std::uint32_t i = 0; i < setup.machines; ++i) {
    machines.push_back(std::make_unique<Machine>(*this, i));
  }
}

Simulation::~Simulation() {
  for (const auto& machine : machines) {
    machine->EndProcess(false);
  }
}

void Simulation::Heal() {
  Tell("world", "(everything is well from now on)");
  setup.weather = Weather{};
  setup.conduct = Conduct{};
  setup.slow_disk = 5ms;
  setup.stale_claims = setup.stale_listings = setup.long_pauses = 0;
  cuts.clear();
  names = true;
  names_fail = false;
  for (const auto& machine : machines) {
    machine->SetDirectory(true);
    machine->directory.error = 0;
    machine->checkpoints = {};
    machine->SetLink(true, false);
    machine->SetWays(true, true);
    machine->Resume();
    machine->Start();
  }
}

void Simulation::OutcomeTold(Term term, const NodeKey& key) {
  Laws::Lives lives;
  for (const auto& machine : machines) {
    if (machine->alive() && machine->agent().term != Term{}) {
      lives.emplace(machine->host(), machine->life());
    }
  }
  laws.OnOutcomeTold(term, key, lives);
}

bool Simulation::Quiet() const {
  return std::ranges::none_of(machines, [](const auto& machine) { return machine->alive(); });
}

bool Simulation::Carries(std::uint32_t from, std::uint32_t to) const {
  return from == to ||
         (machines[from]->speaks() && machines[to]->hears() && !cuts.contains({from, to}));
}

bool Simulation::Reaches(std::uint32_t from, std::uint32_t to) const {
  return machines[from]->powered() && machines[to]->powered() && Carries(from, to);
}

void Simulation::Deliver(std::uint32_t from, std::uint32_t to, std::function<void()> arrive) {
  if (from == to) {
    event_queue.After(0ms, std::move(arrive));  // In its own process.
    return;
  }
  const int copies = random.Chance(setup.weather.duplicate) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (Carries(from, to) && !random.Chance(setup.weather.lose)) {
      event_queue.After(Delay(), [this, from, to, arrive] {
        if (machines[to]->powered() && Carries(from, to)) {
          arrive();
        }
      });
    }
  }
}

void Simulation::WorkerJoined(Machine& machine, const Placement& placement, std::uint32_t rank) {
  const WorldId world = placement.world_id;
  Job& job = jobs_[world];
  job.where[rank] = &machine;
  job.size = placement.world_size;
  job.joined.insert(rank);
  if (!job.began && job.whole()) {
    job.began = Now();
    job.first_step = reached_ / kSavedEvery * kSavedEvery;
  }
  if (job.broken && setup.program != Program::kIndependent) {
    for (const auto& peer : machines) {
      peer->workers().PeerDied(world);
    }
    return;
  }
  if (training && job.whole()) {
    training->Begin(placement);
  } else if (!training && !setup.slow && (setup.program == Program::kIndependent || job.whole())) {
    FinishAfterWork(world);
  }
}

void Simulation::FinishWorld(WorldId world) {
  jobs_[world].done = true;
  for (const auto& machine : machines) {
    machine->workers().FinishWorkers(world);
  }
}

void Simulation::WorkerDied(Machine& machine, WorldId world, std::uint32_t rank, bool finished) {
  Job& job = jobs_[world];
  if (training) {
    training->WorkerDied(world, rank);
  }
  if (finished) {
    job.steps[rank] = ~std::uint64_t{0};  // No process waits for it.
    // Done early: the others do not wait for it.
    const bool came = job.joined.insert(rank).second;
    if (!job.done && came && job.whole()) {
      FinishAfterWork(world);
    }
    return;
  }
  job.joined.erase(rank);
  if (job.done || job.broken) {
    return;
  }
  job.broken = true;
  for (const auto& peer : machines) {
    TellPeer(machine, *peer, world);
  }
}

// Where nothing gets through it waits in a collective, and finds out later.
void Simulation::TellPeer(const Machine& from, Machine& to, WorldId world) {
  if (!training || Reaches(from.index(), to.index())) {
    to.workers().PeerDied(world);
    return;
  }
  event_queue.After(1s, [this, &from, &to, world] { TellPeer(from, to, world); });
}

}  // namespace ddprun::sim
