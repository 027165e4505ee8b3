// What goes wrong with machines, links, disks and workers, for how long, and how it is mended.
#pragma once

#include <span>

#include "tests/sim/simulation.h"

namespace ddprun::sim {

class Faults {
 public:
  struct Kind;
  Faults(Simulation& simulation, Random& random) : simulation_(simulation), random_(random) {}

  // Begins now: any that this run may have.
  void Any(bool calm);
  // One of the kinds that only histories from kMoreFaults on have.
  void More();

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
  // Of claims and checkpoints: nothing hangs, but what is asked of them fails.
  void DiskErrors(Machine& machine, Duration length);
  // Its clock stands too.
  void Suspend(Machine& machine, Duration length);
  void Names(Machine& machine, Duration length);
  // Of a worker: it is not to be started again.
  void LastWord(Machine& machine, Duration length);

 private:
  void Begin(std::span<const Kind> kinds, Machine& machine, Duration length);
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
