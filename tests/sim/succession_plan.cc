#include "tests/sim/succession_plan.h"

#include <algorithm>

#include "tests/sim/candidate.h"
#include "tests/sim/claims.h"
#include "tests/sim/full_plan.h"
#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

constexpr Time kBegin{Duration{1'000'000}};  // Not zero: no time is "never".
constexpr Duration kTrouble{60'000};
constexpr Duration kLastTrouble{25'000};  // Until the last one is over.
constexpr Duration kSettling{30'000};
constexpr Duration kForEver{3'600'000};
constexpr Duration kLook{50};
constexpr int kLooksTogether = 3;  // Waking, a process has a moment to find out.

}  // namespace

SuccessionPlan::SuccessionPlan(std::uint64_t seed, const Mutation& mutation, bool listed,
                               TranscriptLevel level)
    : random_(seed), simulation_(RandomSetup(mutation, listed), random_.Next(), level) {
  Agenda& agenda = simulation_.agenda;
  agenda.At(kBegin, [] {});
  agenda.DoNext(kBegin);
  simulation_.laws.AllowSplits();
  simulation_.run_directory = std::make_unique<RunDirectory>(agenda.Now());
  for (std::uint32_t i = 0; i < simulation_.setup.machines; ++i) {
    simulation_.candidates.push_back(std::make_unique<Candidate>(simulation_, i));
    simulation_.machines[i]->Carry(*simulation_.candidates.back());
  }
}

Setup SuccessionPlan::RandomSetup(const Mutation& mutation, bool listed) {
  Setup setup;
  setup.mutation = mutation;
  blips_only_ = random_.Chance(0.25);
  old_reads_ = !listed && !blips_only_ && random_.Chance(0.25);
  setup.machines = static_cast<std::uint32_t>(random_.Between(listed ? 3 : 2, listed ? 6 : 5));
  setup.listed = !listed ? 0 : setup.machines >= 5 ? 5 : 3;
  setup.stale_claims = old_reads_ ? 0.3 : 0;
  setup.weather.max_delay = Duration{20};
  setup.shape.min_nodes = setup.shape.max_nodes = setup.machines + 1;
  setup.shape.join_timeout = kForEver;
  setup.workers.assign(setup.machines, 1);
  return setup;
}

// ---- What goes wrong ----
// Blips that follow each other closely are one that is longer.
void SuccessionPlan::TroubleSoon(Time end) {
  const Duration least{blips_only_ ? 9'000 : 3'000};
  simulation_.agenda.After(random_.Between(least, least + Duration{6'000}), [this, end] {
    if (simulation_.agenda.Now() < end) {
      TroubleSoon(end);
      Trouble();
    }
  });
}

void SuccessionPlan::Trouble() {
  const auto index = static_cast<std::uint32_t>(random_.Below(simulation_.machines.size()));
  Machine& machine = *simulation_.machines[index];
  const Duration lasts =
      random_.Between(Duration{50}, blips_only_ ? Duration{2'900} : Duration{20'000});
  const Time over = simulation_.agenda.Now() + lasts;
  const std::uint64_t kind = random_.Below(blips_only_ ? 3 : 4);
  if (kind == 0 && !old_reads_) {
    machine.SetLink(false, false);
    simulation_.agenda.At(over, [&machine] { machine.SetLink(true, false); });
  } else if (kind == 1 && simulation_.setup.listed > 0) {
    const auto other = static_cast<std::uint32_t>(random_.Below(simulation_.machines.size()));
    const bool both = random_.Chance(0.5);
    simulation_.cuts.insert({index, other});
    if (both) {
      simulation_.cuts.insert({other, index});
    }
    simulation_.agenda.At(over, [this, index, other] {
      simulation_.cuts.erase({index, other});
      simulation_.cuts.erase({other, index});
    });
  } else if (kind == 1) {
    Candidate& candidate = *simulation_.candidates[index];
    candidate.SetDirectory(false);
    simulation_.agenda.At(over, [&candidate] { candidate.SetDirectory(true); });
  } else if (kind == 2) {
    machine.Pause();
    if (old_reads_) {  // Nor does it find answers when it wakes.
      machine.SetWays(true, false);
    }
    simulation_.agenda.At(over, [&machine] {
      machine.SetWays(true, true);
      machine.Resume();
    });
  } else if (kind == 3 && !old_reads_) {
    machine.Crash(true);
    simulation_.agenda.At(over, [&machine] { machine.Start(); });
  }
}

// ---- What must never happen ----
void SuccessionPlan::Watch() {
  overlaps_ = ActiveServers(simulation_) > 1 ? overlaps_ + 1 : 0;
  if (overlaps_ >= kLooksTogether) {
    simulation_.laws.Break("two servers act side by side");
  }
  simulation_.agenda.After(kLook, [this] { Watch(); });
}

bool SuccessionPlan::Settled() const {
  return OneServer(simulation_) &&
         std::all_of(simulation_.machines.begin(), simulation_.machines.end(),
                     [](const auto& machine) { return machine->alive(); });
}

History SuccessionPlan::Play() {
  Laws& laws = simulation_.laws;
  Agenda& agenda = simulation_.agenda;
  for (const auto& machine : simulation_.machines) {
    agenda.After(random_.Between(Duration{0}, Duration{500}),
                 [&machine = *machine] { machine.Start(); });
  }
  Watch();
  agenda.After(Duration{5'000}, [this] { TroubleSoon(kBegin + kTrouble); });
  simulation_.RunUntil(kBegin + kTrouble + kLastTrouble);
  if (blips_only_ && laws.reigns() != 1) {
    laws.Break("with blips alone " + std::to_string(laws.reigns()) + " servers reign");
  }
  simulation_.Heal();
  simulation_.RunUntil(agenda.Now() + kSettling);
  const std::uint64_t reigns = laws.reigns();
  if (!Settled()) {
    laws.Break("long after healing there is not one server that all follow");
  }
  simulation_.RunUntil(agenda.Now() + kSettling);
  if (laws.reigns() != reigns) {
    laws.Break("the server changes though everything is well");
  }
  History history;
  history.broken = laws.broken();
  history.hash = simulation_.transcript.hash();
  history.lines = simulation_.transcript.lines();
  history.reigns = laws.reigns();
  return history;
}

History PlaySuccession(std::uint64_t seed, const Mutation& mutation, bool listed,
                       TranscriptLevel level) {
  return SuccessionPlan(seed, mutation, listed, level).Play();
}

}  // namespace ddprun::sim
