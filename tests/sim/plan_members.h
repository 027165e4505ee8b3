// Half of all histories have more of what changes a world: many nodes that come at once, nodes that
// come and die again and again, links that carry only one way, spares, windows and crash loops,
// two machines that claim to be the same node, all connections closed at once (a proxy restarts).
//
// Draws from sources of its own, so that the other half of the seeds keep their histories.
#pragma once

#include "tests/sim/simulation.h"

namespace ddprun::sim {

class MemberPlan {
 public:
  MemberPlan(std::uint64_t seed, bool calm);

  // More machines, and the options about restarts.
  void Vary(Setup& setup);
  // Who of the added machines comes when; faults until the simulation is healed.
  void Plan(Simulation& simulation, Duration until);

 private:
  void PlanFlapping(Simulation& simulation, Machine& machine, Time when);
  void PlanOneWayLink(Simulation& simulation, Machine& machine, Time when);
  void PlanProxyRestart(Simulation& simulation, Time when);

  Random random_;
  Random late_random_;  // For what came later: what came before keeps its draws.
  bool active_;
  bool calm_;
  std::uint32_t first_added_ = 0;
};

}  // namespace ddprun::sim
