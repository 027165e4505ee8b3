// FullPlan: what must be true of its servers, and after healing.
#include <algorithm>

#include "rendezvous/messages/describe.h"
#include "tests/sim/candidate.h"
#include "tests/sim/full_plan.h"
#include "tests/sim/machine.h"
#include "tests/sim/server.h"

namespace ddprun::sim {
namespace {

constexpr Duration kLook{50};
constexpr int kLooksTogether = 3;        // Waking, a process has a moment to find out.
constexpr int kLooksTogetherStale = 40;  // Who read what was long ago is found out by its rival.

}  // namespace

std::ptrdiff_t ActiveServers(const Simulation& simulation) {
  return std::count_if(simulation.candidates.begin(), simulation.candidates.end(),
                       [](const auto& one) { return one->serves() && !one->paused(); });
}

void FullPlan::Watch() {
  overlaps_ = ActiveServers(simulation_) > 1 ? overlaps_ + 1 : 0;
  const bool stale = simulation_.setup.stale_claims > 0;
  if (overlaps_ >= (stale ? kLooksTogetherStale : kLooksTogether)) {
    simulation_.laws.Break("two servers act side by side");
  }
  simulation_.agenda.After(kLook, [this] { Watch(); });
}

bool MayBeServed(const Simulation& simulation) {
  const std::uint32_t listed = simulation.setup.listed;
  const auto end = simulation.candidates.begin() + listed;
  const auto witnesses = std::count_if(simulation.candidates.begin(), end,
                                       [](const auto& candidate) { return candidate->up(); });
  return listed == 0 || witnesses > listed / 2;
}

bool OneServer(const Simulation& simulation) {
  const Server* only = nullptr;
  for (const auto& candidate : simulation.candidates) {
    if (candidate->serves()) {
      if (only != nullptr) {
        return false;
      }
      only = &candidate->server();
    }
  }
  const bool possible = MayBeServed(simulation);
  return std::all_of(
      simulation.machines.begin(), simulation.machines.end(), [&](const auto& machine) {
        const bool finds =
            only != nullptr && simulation.candidates[machine->index()]->speaks_to() == only;
        return !machine->alive() || finds || !possible;
      });
}

void FullPlan::LookForOneServer(int looks_left) {
  settled_ = settled_ || OneServer(simulation_);
  if (settled_) {
    return;
  }
  if (looks_left == 0) {
    simulation_.laws.Break("long after healing there is not one server that all follow");
    return;
  }
  simulation_.agenda.After(Duration{1'000},
                           [this, looks_left] { LookForOneServer(looks_left - 1); });
}

// Without a server the workers of a broken world hang for as long as they like.
void FullPlan::CheckEnd() {
  if (simulation_.Quiet() || !MayBeServed(simulation_)) {
    return;
  }
  std::string text = "after healing the run did not end in time:";
  for (const auto& candidate : simulation_.candidates) {
    if (candidate->serves()) {
      const Server& server = candidate->server();
      for (const std::string& line :
           Describe(server.state(), server.config(), simulation_.agenda.Now())) {
        text += "\n    " + line;
      }
    }
  }
  simulation_.laws.Break(text);
}

}  // namespace ddprun::sim
