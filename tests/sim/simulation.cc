#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "tests/sim/machine.h"
#include "tests/sim/server.h"

namespace ddprun::sim {
namespace {

constexpr Duration kStep{50};
constexpr std::uint64_t kSavedEvery = 40;  // Steps.

}  // namespace

Simulation::Simulation(const Setup& given, std::uint64_t seed, TranscriptLevel level)
    : random(seed), setup(given), transcript(level) {
  server = std::make_unique<Server>(*this);
  for (std::uint32_t i = 0; i < setup.machines; ++i) {
    machines.push_back(std::make_unique<Machine>(*this, i));
  }
}

Simulation::~Simulation() = default;

void Simulation::RunUntil(Time end) {
  while (!laws.broken() && agenda.DoNext(end)) {
  }
}

void Simulation::Heal() {
  transcript.Tell(agenda.Now(), "world", "(everything is well from now on)");
  setup.weather = Weather{};
  setup.conduct = Conduct{};
  setup.slow_disk = Duration{5};
  server->Start();
  server->Resume();
  for (const auto& machine : machines) {
    machine->SetLink(true, false);
    machine->SetWays(true, true);
    machine->Resume();
    machine->Start();
  }
}

bool Simulation::Quiet() const {
  return std::none_of(machines.begin(), machines.end(),
                      [](const auto& machine) { return machine->alive(); });
}

Duration Simulation::Delay() {
  const Weather& weather = setup.weather;
  return random.Chance(weather.slow) ? random.Between(weather.min_delay, weather.slow_max)
                                     : random.Between(weather.min_delay, weather.max_delay);
}

void Simulation::Deliver(const Machine& machine, Way way, std::function<void()> arrive) {
  const int copies = random.Chance(setup.weather.duplicate) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (!machine.Carries(way) || random.Chance(setup.weather.lose)) {
      continue;
    }
    agenda.After(Delay(), [&machine, way, arrive] {
      if (machine.Carries(way)) {
        arrive();
      }
    });
  }
}

void Simulation::WorkerJoined(const Placement& placement, std::uint32_t rank) {
  const WorldId world = placement.world_id;
  Job& job = jobs_[world];
  job.size = placement.world_size;
  job.joined.insert(rank);
  if (!job.began && job.joined.size() == job.size) {
    job.began = agenda.Now();
    job.first_step = reached_ / kSavedEvery * kSavedEvery;
  }
  if (job.broken && setup.program != Program::kIndependent) {
    for (const auto& machine : machines) {
      machine->PeerDied(world);
    }
    return;
  }
  if (setup.program == Program::kIndependent || job.joined.size() == job.size) {
    FinishAfterWork(world);
  }
}

std::uint64_t Simulation::StepOf(WorldId world) {
  const Job& job = jobs_[world];
  if (!job.began) {
    return 0;
  }
  const auto steps = static_cast<std::uint64_t>((agenda.Now() - *job.began) / kStep);
  reached_ = std::max(reached_, job.first_step + steps);
  return job.first_step + steps;
}

void Simulation::FinishAfterWork(WorldId world) {
  agenda.After(setup.work, [this, world] {
    Job& ended = jobs_[world];
    if (ended.hung || (ended.broken && setup.program != Program::kIndependent)) {
      return;
    }
    ended.done = true;
    for (const auto& machine : machines) {
      machine->FinishWorkers(world);
    }
  });
}

std::uint64_t Simulation::WorkerSteps(WorldId world, std::uint32_t rank) {
  Job& job = jobs_[world];
  std::uint64_t& own = job.steps[rank];
  const bool behind = std::any_of(job.joined.begin(), job.joined.end(),
                                  [&](std::uint32_t other) { return job.steps[other] < own; });
  if (job.joined.size() == job.size && !behind) {
    ++own;
  }
  return own;
}

void Simulation::WorkerDied(WorldId world, std::uint32_t rank, bool finished) {
  Job& job = jobs_[world];
  if (finished) {
    job.steps[rank] = ~std::uint64_t{0};  // Nobody waits for it.
  }
  if (finished && !job.done) {
    // Done early: the others do not wait for it.
    if (job.joined.insert(rank).second && job.joined.size() == job.size) {
      FinishAfterWork(world);
    }
    return;
  }
  job.joined.erase(rank);
  if (job.done || job.broken) {
    return;
  }
  job.broken = true;
  for (const auto& machine : machines) {
    machine->PeerDied(world);
  }
}

}  // namespace ddprun::sim
