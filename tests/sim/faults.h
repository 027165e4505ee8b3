// What goes wrong with machines, links, disks and workers, for how long, and how it is mended.
#pragma once

#include "tests/sim/simulation.h"

namespace ddprun::sim {

class Faults {
 public:
  Faults(Simulation& simulation, Random& random) : simulation_(simulation), random_(random) {}

  // Begins now: any that this run may have.
  void Any(bool calm);

  void End(Machine& machine, Duration length);
  void Standstill(Machine& machine, Duration length);
  void Link(Machine& machine, Duration length);
  // Into two parts, wholly or one way; or only between some of them.
  void Partition(Machine& machine, Duration length);
  // Of claims or checkpoints.
  void Disk(Machine& machine, Duration length);
  // It comes and dies again and again.
  void Flapping(Machine& machine, Duration length);
  // All connections close at once.
  void ProxyRestart(Machine& machine, Duration length);
  void Worker(Machine& machine, Duration length);

 private:
  Machine& AnyNode();
  // Whoever serves now, or else any.
  Machine& Serving();
  void After(Duration delay, std::function<void()> what) {
    simulation_.agenda.After(delay, std::move(what));
  }
  void Hang(bool claims, bool checkpoints, Machine& machine, Duration length);

  Simulation& simulation_;
  Random& random_;
};

}  // namespace ddprun::sim
