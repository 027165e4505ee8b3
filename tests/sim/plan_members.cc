#include "tests/sim/plan_members.h"

#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kOwnSource = 0x6d656d626572ULL;
constexpr std::uint64_t kLateSource = 0x7477696eULL;
constexpr Duration kLongestFlap{1'500};

}  // namespace

MemberPlan::MemberPlan(std::uint64_t seed, bool calm)
    : random_(seed ^ kOwnSource),
      late_random_(seed ^ kLateSource),
      active_(random_.Chance(0.5)),
      calm_(calm) {}

void MemberPlan::Vary(Setup& setup) {
  first_added_ = setup.machines;
  if (!active_) {
    return;
  }
  const auto added = static_cast<std::uint32_t>(random_.Below(4));
  setup.machines += added;
  setup.shape.max_nodes += static_cast<std::uint32_t>(random_.Below(added + 1));  // Else spares.
  for (std::uint32_t i = 0; i < added; ++i) {
    setup.workers.push_back(static_cast<std::uint32_t>(random_.Between(1, 3)));
  }
  setup.tells_steps = random_.Chance(0.5);
  setup.shape.crash_loop_limit = static_cast<std::uint32_t>(random_.Below(4));
  if (random_.Chance(0.4)) {
    setup.shape.restart_window = random_.Between(Duration{500}, Duration{30'000});
  }
  if (added > 0 && late_random_.Chance(0.2)) {
    setup.twin = first_added_;
  }
}

void MemberPlan::Plan(Simulation& simulation, Duration until) {
  const Duration burst = random_.Between(Duration{0}, until * 2 / 3);
  const Duration spread = random_.Chance(0.5) ? Duration{20} : Duration{1'500};
  for (std::size_t i = first_added_; i < simulation.machines.size(); ++i) {
    simulation.agenda.After(burst + random_.Between(Duration{0}, spread),
                            [&machine = *simulation.machines[i]] { machine.Start(); });
  }
  if (!active_ || calm_) {
    return;
  }
  if (late_random_.Chance(0.3)) {
    PlanProxyRestart(simulation,
                     simulation.agenda.Now() + late_random_.Between(Duration{0}, until));
  }
  for (std::uint64_t i = random_.Below(4); i > 0; --i) {
    Machine& machine = *simulation.machines[random_.Below(simulation.machines.size())];
    const Time when = simulation.agenda.Now() + random_.Between(Duration{0}, until);
    if (random_.Chance(0.5)) {
      PlanFlapping(simulation, machine, when);
    } else {
      PlanOneWayLink(simulation, machine, when);
    }
  }
}

void MemberPlan::PlanFlapping(Simulation& simulation, Machine& machine, Time when) {
  for (std::uint64_t i = random_.Between(2, 6); i > 0; --i) {
    simulation.agenda.At(when, [&machine] { machine.Start(); });
    when += random_.Between(Duration{50}, kLongestFlap);
    simulation.agenda.At(when,
                         [&machine, noticed = random_.Chance(0.8)] { machine.PowerOff(noticed); });
    when += random_.Between(Duration{50}, kLongestFlap);
  }
  simulation.agenda.At(when, [&machine] { machine.Start(); });
}

void MemberPlan::PlanProxyRestart(Simulation& simulation, Time when) {
  const Duration down = late_random_.Between(Duration{50}, Duration{2'000});
  for (const auto& machine : simulation.machines) {
    simulation.agenda.At(when, [&machine = *machine] { machine.SetLink(false, true); });
    simulation.agenda.At(when + down, [&machine = *machine] { machine.SetLink(true, false); });
  }
}

void MemberPlan::PlanOneWayLink(Simulation& simulation, Machine& machine, Time when) {
  const bool speaks = random_.Chance(0.5);
  simulation.agenda.At(when, [&machine, speaks] { machine.SetWays(speaks, !speaks); });
  // Beyond a lease, or within it.
  simulation.agenda.At(when + random_.Between(Duration{100}, Duration{12'000}),
                       [&machine] { machine.SetWays(true, true); });
}

}  // namespace ddprun::sim
