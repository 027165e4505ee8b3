#include "tests/sim/full_plan.h"

#include <algorithm>
#include <array>

#include "tests/sim/candidate.h"
#include "tests/sim/claims.h"
#include "tests/sim/machine.h"
#include "tests/sim/server.h"
#include "tests/sim/training.h"

namespace ddprun::sim {
namespace {

constexpr Time kBegin{Duration{1'000'000}};  // Not zero: no time is "never".
constexpr Duration kLiveness{300'000};       // From healing to the end of every agent.
constexpr double kHostile = 0.03;
constexpr Duration kSettling{30'000};
constexpr int kSettlingLooks = 60;

}  // namespace

FullPlan::FullPlan(std::uint64_t seed, const Mutation& mutation, TranscriptLevel level)
    : random_(seed),
      calm_(seed % 8 == 0),
      simulation_(RandomSetup(mutation), random_.Next(), level) {
  Agenda& agenda = simulation_.agenda;
  agenda.At(kBegin, [] {});
  agenda.DoNext(kBegin);
  simulation_.laws.AllowSplits();
  simulation_.run_directory = std::make_unique<RunDirectory>(agenda.Now());
  simulation_.training = std::make_unique<Training>(simulation_);
  for (std::uint32_t i = 0; i < simulation_.setup.machines; ++i) {
    simulation_.candidates.push_back(std::make_unique<Candidate>(simulation_, i));
    simulation_.machines[i]->Carry(*simulation_.candidates.back());
  }
  if (bare_) {
    simulation_.machines[0]->LeaveOutAgent();
  }
}

// ---- The run ----
Setup FullPlan::RandomSetup(const Mutation& mutation) {
  Random& random = random_;
  Setup setup;
  setup.mutation = mutation;
  setup.listed = random.Chance(0.4) ? 3 : 0;
  bare_ = calm_ || random.Chance(0.2);
  setup.machines = static_cast<std::uint32_t>(random.Between(setup.listed > 0 ? 3 : 2, 5));
  setup.listed = setup.listed > 0 && setup.machines == 5 && random.Chance(0.5) ? 5 : setup.listed;
  const std::uint32_t nodes = setup.machines - (bare_ ? 1 : 0);
  setup.shape.max_nodes = static_cast<std::uint32_t>(random.Between(1, nodes));
  setup.shape.min_nodes =
      static_cast<std::uint32_t>(random.Chance(0.5) ? 1 : random.Between(1, setup.shape.max_nodes));
  setup.shape.max_restarts = static_cast<std::uint32_t>(random.Below(6));
  setup.shape.last_call = random.Between(Duration{0}, Duration{5'000});
  setup.shape.join_timeout = random.Between(Duration{20'000}, Duration{60'000});
  setup.shape.scale_up = random.Chance(0.7);
  for (std::uint32_t i = 0; i < setup.machines; ++i) {
    setup.workers.push_back(static_cast<std::uint32_t>(random.Between(1, 2)));
  }
  setup.program = std::array{Program::kTrainer, Program::kPlain, Program::kHanging,
                             Program::kIndependent}[random.Below(4)];
  PlanDisks(setup);
  if (!calm_) {
    PlanStorm(setup);
  }
  return setup;
}

void FullPlan::PlanDisks(Setup& setup) {
  Random& random = random_;
  setup.save_every = random.Between(1, 8);
  setup.step_time = random.Between(Duration{30}, Duration{300});
  const Duration all = random.Between(Duration{5'000}, Duration{40'000});
  setup.steps = static_cast<std::uint64_t>(all / setup.step_time);
  setup.save_every = std::max(setup.save_every, setup.steps / 16);
  setup.keep_last = random.Between(1, 3);
  setup.shared_disk = random.Chance(0.8);
}

void FullPlan::PlanStorm(Setup& setup) {
  Random& random = random_;
  setup.heedless = setup.program == Program::kIndependent;
  setup.stale_claims = random.Chance(0.25) ? 0.3 : 0;
  setup.stale_listings = random.Chance(0.4) ? 0.5 : 0;
  setup.long_pauses = random.Chance(0.5) ? 0.01 : 0;
  setup.conduct.fails = random.Chance(0.3) ? 0.05 : 0;
  setup.conduct.ignores_term = random.Chance(0.5) ? 0.3 : 0;
  setup.conduct.spawn_fails = random.Chance(0.2) ? 0.1 : 0;
  setup.conduct.slow_start = random.Chance(0.2) ? 0.1 : 0;
  setup.conduct.slow_files = random.Chance(0.3) ? 0.2 : 0;
  setup.conduct.stuck = random.Chance(0.3) ? 0.1 : 0;
  setup.conduct.slow_exit = random.Between(Duration{1}, Duration{3'000});
  const double storm = random.Chance(0.5) ? 0 : 0.15 * static_cast<double>(random.Below(100)) / 100;
  setup.weather.lose = random.Chance(0.6) ? storm : 0;
  setup.weather.duplicate = random.Chance(0.6) ? storm : 0;
  setup.weather.cut = random.Chance(0.6) ? storm : 0;
  setup.weather.slow = random.Chance(0.6) ? storm : 0;
  setup.weather.notice_lost = random.Chance(0.5) ? 0.3 : 0;
  setup.weather.max_delay = random.Between(Duration{1}, Duration{200});
  setup.weather.slow_max = random.Between(Duration{200}, Duration{20'000});
  // Where the rest of a list has ended with its run nobody ever tells them to stop.
  if (setup.steps % 4 == 0) {  // Hostile to the fence of checkpoints: stragglers at every step.
    setup.long_pauses = kHostile;
    setup.shared_disk = true;
    setup.shape.min_nodes = 1;
  }
  const bool endless = setup.listed > 0 && (setup.program == Program::kHanging ||
                                            setup.program == Program::kIndependent);
  if (endless) {
    setup.conduct.stuck = 0;
  }
  if (endless || (random.Chance(0.2) && setup.conduct.stuck == 0)) {
    setup.shape.fence_after = random.Between(Duration{6'000}, Duration{14'000});
  }
}

// ---- What goes wrong ----
Machine& FullPlan::AnyMachine() {
  return *simulation_.machines[random_.Below(simulation_.machines.size())];
}

Machine& FullPlan::Serving() {
  for (std::size_t i = 0; i < simulation_.candidates.size(); ++i) {
    if (simulation_.candidates[i]->serves()) {
      return *simulation_.machines[i];
    }
  }
  return AnyMachine();
}

// Twice at most, far enough apart for each successor to be found.
void FullPlan::PlanCalm() {
  simulation_.laws.ForbidLosses();
  Machine& alone = *simulation_.machines[0];
  Time when = kBegin + random_.Between(Duration{12'000}, Duration{25'000});
  for (std::uint64_t i = random_.Below(3); i > 0; --i) {
    const bool power = random_.Chance(0.5);
    simulation_.agenda.At(when, [&alone, power] {
      if (power) {
        alone.PowerOff(true);
      } else {
        alone.Crash(true);
      }
    });
    when += random_.Between(Duration{20'000}, Duration{40'000});
    simulation_.agenda.At(when, [&alone] { alone.Start(); });
    when += random_.Between(Duration{10'000}, Duration{20'000});
  }
}

void FullPlan::PlanFaults(Duration until) {
  for (const auto& machine : simulation_.machines) {
    const Duration join = calm_ || random_.Chance(0.7)
                              ? random_.Between(Duration{0}, Duration{500})
                              : random_.Between(Duration{0}, until * 2 / 3);
    simulation_.agenda.After(join, [&machine = *machine] { machine.Start(); });
  }
  if (calm_) {
    PlanCalm();
    return;
  }
  const std::uint64_t faults = random_.Between(1, 12);
  for (std::uint64_t i = 0; i < faults; ++i) {
    const Time when = kBegin + random_.Between(Duration{1'000}, until);
    simulation_.agenda.At(when, [this, when] { PlanFault(when); });
  }
}

void FullPlan::PlanFault(Time when) {
  const std::uint64_t span = random_.Below(4);
  const Duration length = span == 0   ? random_.Between(Duration{50}, Duration{2'000})
                          : span == 1 ? random_.Between(Duration{15'000}, Duration{45'000})
                                      : random_.Between(Duration{2'000}, Duration{15'000});
  Machine& machine = random_.Chance(0.4) ? Serving() : AnyMachine();
  switch (random_.Below(8)) {
    case 0:
    case 1:
      PlanEnd(machine, when, length);
      break;
    case 2:
      PlanStandstill(machine, when, length);
      break;
    case 3:
      PlanLink(machine, when, length);
      break;
    case 4:
    case 5:
      PlanPartition(when, length);
      break;
    case 6:
      PlanDisk(machine, when, length);
      break;
    default:
      PlanWorker(machine, when);
      break;
  }
}

void FullPlan::PlanEnd(Machine& machine, Time when, Duration length) {
  const bool noticed = random_.Chance(0.6);
  if (random_.Chance(0.5)) {
    machine.Crash(noticed);
  } else {
    machine.PowerOff(noticed);
    simulation_.training->OnPowerCut(machine.index());
  }
  const bool names = random_.Chance(0.2);  // Their server goes too: what it was asked is lost.
  const auto set_names = [this](bool found) {
    for (const auto& candidate : simulation_.candidates) {
      candidate->SetNames(found);
    }
  };
  if (names) {
    set_names(false);
  }
  simulation_.agenda.At(when + length, [&machine, names, set_names] {
    machine.Start();
    if (names) {
      set_names(true);
    }
  });
}

void FullPlan::PlanStandstill(Machine& machine, Time when, Duration length) {
  if (random_.Chance(0.5)) {
    machine.Freeze();
  } else {
    machine.Pause();
  }
  simulation_.agenda.At(when + length, [&machine] { machine.Resume(); });
}

void FullPlan::PlanLink(Machine& machine, Time when, Duration length) {
  const std::uint64_t what = random_.Below(4);
  if (what < 2) {
    machine.SetLink(false, random_.Chance(0.5));
    simulation_.agenda.At(when + length, [&machine] { machine.SetLink(true, false); });
  } else {
    machine.SetWays(what == 2, what == 3);
    simulation_.agenda.At(when + length, [&machine] { machine.SetWays(true, true); });
  }
  if (random_.Chance(0.2)) {  // The disk is behind that link.
    PlanDisk(machine, when, length);
  }
}

// Into two parts, wholly or one way; or only between some of them.
void FullPlan::PlanPartition(Time when, Duration length) {
  const std::uint64_t side = random_.Next();
  const bool both = random_.Chance(0.6);
  const double share = random_.Chance(0.6) ? 1 : 0.5;
  const auto machines = static_cast<std::uint32_t>(simulation_.machines.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> made;
  for (std::uint32_t a = 0; a < machines; ++a) {
    for (std::uint32_t b = 0; b < machines; ++b) {
      const bool apart = (side >> a & 1) == 1 && (side >> b & 1) == 0;
      if (apart && random_.Chance(share)) {
        made.emplace_back(a, b);
        if (both) {
          made.emplace_back(b, a);
        }
      }
    }
  }
  simulation_.cuts.insert(made.begin(), made.end());
  if (simulation_.transcript.words()) {
    std::string text = "(cut:";
    for (const auto& [a, b] : made) {
      text += " n" + std::to_string(a) + ">n" + std::to_string(b);
    }
    simulation_.transcript.Tell(when, "world", text + ")");
  }
  simulation_.agenda.At(when + length, [this, made] {
    for (const auto& cut : made) {
      simulation_.cuts.erase(cut);
    }
    simulation_.transcript.Tell(simulation_.agenda.Now(), "world", "(that cut is mended)");
  });
}

void FullPlan::PlanDisk(Machine& machine, Time when, Duration length) {
  Candidate& candidate = *simulation_.candidates[machine.index()];
  const bool claims = random_.Chance(0.6);
  const bool checkpoints = !claims || random_.Chance(0.3);
  simulation_.transcript.Tell(
      when, machine.host(),
      claims ? checkpoints ? "(both directories hang)" : "(the run directory hangs)"
             : "(the checkpoints hang)");
  if (claims) {
    candidate.SetDirectory(false);
    simulation_.agenda.At(when + length, [&candidate] { candidate.SetDirectory(true); });
  }
  if (checkpoints) {
    simulation_.training->SetDisk(machine.index(), false);
    simulation_.agenda.At(when + length, [this, index = machine.index()] {
      simulation_.training->SetDisk(index, true);
    });
  }
}

void FullPlan::PlanWorker(Machine& machine, Time when) {
  constexpr int kSigTerm = 15;
  constexpr int kSigKill = 9;
  const std::uint64_t n = random_.Below(8);
  switch (random_.Below(8)) {
    case 0:
      machine.Signal(kSigTerm);
      break;
    case 1:
    case 2:
      machine.workers().EndAWorker(n, Exited{1});
      break;
    default:
      machine.workers().EndAWorker(n, Killed{kSigKill});
      break;
  }
  (void)when;
}

History FullPlan::Play() {
  const Duration until =
      calm_ ? Duration{150'000} : random_.Between(Duration{10'000}, Duration{60'000});
  PlanFaults(until);
  Watch();
  const Time heal = kBegin + until;
  simulation_.agenda.At(heal, [this] { simulation_.Heal(); });
  simulation_.agenda.At(heal + kSettling, [this] { LookForOneServer(kSettlingLooks); });
  const Time end = heal + kLiveness;
  while (!simulation_.laws.broken() && !(simulation_.agenda.Now() > heal && simulation_.Quiet()) &&
         simulation_.agenda.DoNext(end)) {
  }
  if (!simulation_.laws.broken()) {
    CheckEnd();
  }
  History history;
  history.broken = simulation_.laws.broken();
  history.hash = simulation_.transcript.hash();
  history.lines = simulation_.transcript.lines();
  for (const auto& candidate : simulation_.candidates) {
    history.worlds += candidate->server().worlds();
  }
  for (const auto& machine : simulation_.machines) {
    const auto& exit = machine->exit();
    history.succeeded |= exit && exit->code == 0;
  }
  history.lost = simulation_.laws.lost();
  history.reigns = simulation_.laws.reigns();
  history.commits = simulation_.training->commits();
  history.refused = simulation_.training->refused();
  return history;
}

History PlayFull(std::uint64_t seed, const Mutation& mutation, TranscriptLevel level) {
  return FullPlan(seed, mutation, level).Play();
}

}  // namespace ddprun::sim
