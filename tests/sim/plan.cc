#include "tests/sim/plan.h"

#include <algorithm>
#include <array>

#include "rendezvous/messages/describe.h"
#include "tests/sim/machine.h"
#include "tests/sim/plan_members.h"
#include "tests/sim/server.h"

namespace ddprun::sim {
namespace {

constexpr int kSigInt = 2;
constexpr int kSigKill = 9;
constexpr int kSigUsr1 = 10;
constexpr int kSigTerm = 15;
constexpr Duration kLiveness{240'000};      // From healing to the end of every agent.
constexpr Duration kLongForgotten{60'000};  // Twenty leases after its end.

// Calm seeds check what faults would excuse: that nobody healthy is taken for lost.
bool IsCalm(std::uint64_t seed) {
  return seed % 8 == 0;
}

Setup RandomSetup(Random& random, const Mutation& mutation, bool calm) {
  Setup setup;
  setup.mutation = mutation;
  setup.machines = static_cast<std::uint32_t>(random.Between(1, 5));
  setup.shape.max_nodes = static_cast<std::uint32_t>(random.Between(1, setup.machines));
  setup.shape.min_nodes = static_cast<std::uint32_t>(random.Between(1, setup.shape.max_nodes));
  setup.shape.max_restarts = static_cast<std::uint32_t>(random.Below(4));
  setup.shape.last_call = random.Between(Duration{0}, Duration{5'000});
  setup.shape.join_timeout = random.Between(Duration{10'000}, Duration{60'000});
  setup.shape.scale_up = random.Chance(0.7);
  for (std::uint32_t i = 0; i < setup.machines; ++i) {
    setup.workers.push_back(static_cast<std::uint32_t>(random.Between(1, 3)));
  }
  setup.program = std::array{Program::kTrainer, Program::kPlain, Program::kHanging,
                             Program::kIndependent}[random.Below(4)];
  setup.work = random.Between(Duration{500}, Duration{15'000});
  setup.conduct.fails = random.Chance(0.5) ? 0.1 : 0;
  setup.conduct.ignores_term = random.Chance(0.5) ? 0.3 : 0;
  setup.conduct.spawn_fails = random.Chance(0.3) ? 0.1 : 0;
  setup.conduct.slow_files = random.Chance(0.3) ? 0.2 : 0;
  setup.conduct.slow_exit = random.Between(Duration{1}, Duration{3'000});
  setup.journal = random.Chance(0.6);
  setup.slow_disk = random.Chance(0.5) ? Duration{5} : random.Between(Duration{5}, Duration{3'000});
  setup.clock_jumps = random.Chance(0.2);
  if (setup.work.count() % 4 == 0) {  // Not drawn: other seeds keep their histories.
    setup.hang_timeout = Duration{1'000 + setup.work.count() % 7 * 1'000};
    setup.conduct.hangs = 0.1;
  }
  if (calm) {
    return setup;
  }
  setup.conduct.slow_start = random.Chance(0.3) ? 0.1 : 0;
  setup.conduct.stuck = random.Chance(0.3) ? 0.1 : 0;
  const double storm = random.Chance(0.3) ? 0 : 0.2 * static_cast<double>(random.Below(100)) / 100;
  setup.weather.lose = random.Chance(0.6) ? storm : 0;
  setup.weather.duplicate = random.Chance(0.6) ? storm : 0;
  setup.weather.cut = random.Chance(0.6) ? storm : 0;
  setup.weather.slow = random.Chance(0.6) ? storm : 0;
  setup.weather.notice_lost = random.Chance(0.5) ? 0.3 : 0;
  setup.weather.max_delay = random.Between(Duration{1}, Duration{200});
  // Beyond every timeout: lease, graces, shutdown, start.
  setup.weather.slow_max = random.Between(Duration{200}, Duration{20'000});
  if (setup.work.count() % 5 == 1 && setup.conduct.stuck == 0) {  // Not drawn either.
    setup.shape.fence_after = Duration{6'000 + setup.work.count() % 9 * 1'000};
  }
  if (setup.work.count() % 7 == 2) {  // Nor this: hardly more than the nodes that there are.
    setup.run_bytes = 4'096 + std::size_t{3'000} * (setup.machines + 1);
  }
  return setup;
}

// At any moment, for any time; sometimes twice in a row.
void PlanServerCrash(Simulation& simulation, Time when) {
  Random& random = simulation.random;
  const Duration down = random.Chance(0.5) ? random.Between(Duration{0}, Duration{500})
                                           : random.Between(Duration{500}, Duration{15'000});
  const bool loses_journal = random.Chance(0.15);
  simulation.agenda.At(when, [&simulation] { simulation.server->Crash(); });
  simulation.agenda.At(when + down, [&simulation, loses_journal] {
    if (loses_journal) {
      simulation.server->LoseJournal();
    }
    simulation.server->Start();
  });
}

void PlanMachineFault(Simulation& simulation, Machine& machine, Time when) {
  Random& random = simulation.random;
  const bool noticed = random.Chance(0.6);
  const Duration length = random.Chance(0.5) ? random.Between(Duration{50}, Duration{2'000})
                                             : random.Between(Duration{2'000}, Duration{15'000});
  const auto at = [&](Time time, auto what) { simulation.agenda.At(time, what); };
  switch (random.Below(5)) {
    case 0:
      at(when, [&machine, noticed] { machine.Crash(noticed); });
      at(when + length, [&machine] { machine.Start(); });
      break;
    case 1:
      at(when, [&machine, noticed] { machine.PowerOff(noticed); });
      at(when + length, [&machine] { machine.Start(); });
      break;
    case 2:
      at(when, [&machine] { machine.Pause(); });
      at(when + length, [&machine] { machine.Resume(); });
      break;
    case 3:
      at(when, [&machine, noticed] { machine.SetLink(false, noticed); });
      at(when + length, [&machine] { machine.SetLink(true, false); });
      break;
    default:
      at(when, [&simulation] { simulation.server->Pause(); });
      at(when + length, [&simulation] { simulation.server->Resume(); });
      break;
  }
}

void PlanMishap(Simulation& simulation, Machine& machine, Time when) {
  Random& random = simulation.random;
  const std::uint64_t n = random.Below(8);
  const auto signal = [&](int number) {
    simulation.agenda.At(when, [&machine, number] { machine.Signal(number); });
  };
  switch (random.Below(8)) {
    case 0:
      signal(kSigTerm);
      break;
    case 1:
      signal(random.Chance(0.3) ? kSigInt : kSigUsr1);
      break;
    case 2:
      signal(kSigTerm);
      simulation.agenda.At(when + random.Between(Duration{1}, Duration{3'000}),
                           [&machine] { machine.Signal(kSigTerm); });
      break;
    case 3:
    case 4:
      simulation.agenda.At(when,
                           [&machine, n] { machine.workers().EndAWorker(n, Killed{kSigKill}); });
      break;
    case 5:
      simulation.agenda.At(when, [&machine, n] { machine.workers().EndAWorker(n, Exited{0}); });
      break;
    default:
      simulation.agenda.At(when, [&machine, n] { machine.workers().EndAWorker(n, Exited{1}); });
      break;
  }
}

void PlanFaults(Simulation& simulation, Duration until, bool calm) {
  Random& random = simulation.random;
  for (const auto& machine : simulation.machines) {
    const Duration join =
        random.Chance(0.5) ? Duration{0} : random.Between(Duration{0}, until * 2 / 3);
    simulation.agenda.After(join, [&machine = *machine] { machine.Start(); });
  }
  const std::uint64_t faults = random.Below(12);
  for (std::uint64_t i = 0; i < faults; ++i) {
    Machine& machine = *simulation.machines[random.Below(simulation.machines.size())];
    const Time when = simulation.agenda.Now() + random.Between(Duration{0}, until);
    if (random.Chance(0.2)) {
      PlanServerCrash(simulation, when);
    } else if (!calm && random.Chance(0.6)) {
      PlanMachineFault(simulation, machine, when);
    } else {
      PlanMishap(simulation, machine, when);
    }
  }
}

std::string InWords(const Simulation& simulation, std::string text) {
  const Server& server = *simulation.server;
  for (const std::string& line :
       Describe(server.state(), server.config(), simulation.agenda.Now())) {
    text += "\n    " + line;
  }
  return text;
}

void CheckEnd(Simulation& simulation) {
  if (!simulation.Quiet()) {
    simulation.laws.Break(InWords(simulation, "after healing the run did not end in time:"));
    return;
  }
  const CoordinatorState& state = simulation.server->state();
  if (state.outcome && !IsOver(state)) {
    simulation.laws.Break(
        InWords(simulation, "the run has ended, but the server may never forget it:"));
  }
  const std::optional<Time>& over = simulation.server->over_since();
  if (state.outcome && over && simulation.agenda.Now() > *over + kLongForgotten) {
    simulation.laws.Break(InWords(simulation, "the run has ended, but the server remembers it:"));
  }
}

}  // namespace

History Play(std::uint64_t seed, const Mutation& mutation, TranscriptLevel level) {
  Random random(seed);
  const bool calm = IsCalm(seed);
  Setup setup = RandomSetup(random, mutation, calm);
  MemberPlan members(seed, calm);
  members.Vary(setup);
  Simulation simulation(setup, random.Next(), level);
  if (calm) {
    simulation.laws.ForbidLosses();
  }
  const Duration until = random.Between(Duration{5'000}, Duration{40'000});
  PlanFaults(simulation, until, calm);
  members.Plan(simulation, until);
  simulation.agenda.At(Time{until}, [&simulation] { simulation.Heal(); });
  const Time end = Time{until + kLiveness};
  simulation.RunUntil(end);
  if (!simulation.laws.broken()) {
    CheckEnd(simulation);
  }
  History history;
  history.broken = simulation.laws.broken();
  history.hash = simulation.transcript.hash();
  history.lines = simulation.transcript.lines();
  history.worlds = simulation.server->worlds();
  history.restarts = simulation.server->restarts();
  history.succeeded = simulation.server->succeeded();
  history.lost = simulation.laws.lost();
  history.false_hangs = simulation.laws.false_hangs();
  return history;
}

}  // namespace ddprun::sim
