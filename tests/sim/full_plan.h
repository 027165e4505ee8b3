// One seed's history of a run whose machines carry the server: machines, links and disks that fail
// in every way, then healing, then one server must be left and the run must end.
//
// Calm histories lose nothing but a server that stands alone on its machine: no worker notices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/sim/plan.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

// Servers that serve and do not stand still.
std::ptrdiff_t ActiveServers(const Simulation& simulation);
// Those of a list who gave up joining are gone for good; fewer than a majority can have no server.
bool MayBeServed(const Simulation& simulation);
// All agents that live follow it, where there can be one.
bool OneServer(const Simulation& simulation);

class FullPlan {
 public:
  FullPlan(std::uint64_t seed, const Mutation& mutation, TranscriptLevel level);

  History Play();

 private:
  Setup RandomSetup(const Mutation& mutation);
  void PlanStorm(Setup& setup);
  void PlanDisks(Setup& setup);
  void PlanCalm();
  void PlanFaults(Duration until);
  void PlanFault(Time when);
  void PlanEnd(Machine& machine, Time when, Duration length);
  void PlanStandstill(Machine& machine, Time when, Duration length);
  void PlanLink(Machine& machine, Time when, Duration length);
  void PlanPartition(Time when, Duration length);
  void PlanDisk(Machine& machine, Time when, Duration length);
  void PlanWorker(Machine& machine, Time when);
  Machine& AnyMachine();
  // Whoever serves now, or else any.
  Machine& Serving();

  // ---- What must be true ----
  void Watch();
  void LookForOneServer(int looks_left);
  void CheckEnd();

  Random random_;
  const bool calm_;
  bool bare_ = false;  // The first machine carries a server alone.
  bool settled_ = false;
  int overlaps_ = 0;  // Looks in a row that found two servers.
  Simulation simulation_;
};

}  // namespace ddprun::sim
