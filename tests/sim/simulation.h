// A whole run in one thread and no time: the product's drivers with their cores, and a network,
// processes, disks and a clock that misbehave on order.
//
// Decides nothing about the run. Faults and their times are the plan's business, forbidden states
// are the laws'.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/node_agent.h"
#include "rendezvous/core/coordinator.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/laws.h"
#include "tests/sim/transcript.h"
#include "tests/sim/workload.h"

namespace ddprun::sim {

class Machine;
class RunDirectory;
class Training;

// The network's effect on each message and call. All zero but delay: calm.
struct Weather {
  double lose = 0;
  double duplicate = 0;
  double cut = 0;          // A call's connection closes some time after it began.
  double notice_lost = 0;  // The server does not learn of a closed connection.
  double slow = 0;         // Delayed up to slow_max instead of max_delay.
  Duration min_delay{1};
  Duration max_delay{3};
  Duration slow_max{0};
};

// The kind of program that the workers are: their reaction when a peer dies.
enum class Program {
  kTrainer,      // Says hello, ends with 75.
  kPlain,        // Ends with 1, after TERM or its peer's death.
  kHanging,      // Blocked in a collective until it is killed.
  kIndependent,  // Does not notice.
};

// How workers behave until the simulation is healed.
struct Conduct {
  double fails = 0;         // Per worker: ends with an exit code or a signal while it works.
  double ignores_term = 0;  // Only KILL ends it.
  double stuck = 0;         // Outlives KILL for a while.
  double spawn_fails = 0;
  double slow_start = 0;   // It waits for a disk, for half a minute at most.
  double slow_files = 0;   // So does reading what a dead worker left.
  Duration slow_exit{50};  // TERM to its end, at most.
  double hangs = 0;        // Per worker: makes no further step, and does not see TERM.
  double unfit = 0;        // Per check of a node: it refuses the node.
  double slow_death = 0;   // Per failing worker: its agent hears that it dies long before its end.
};

struct Setup {
  RunSpec spec{.restart_backoff = Duration{0}};
  bool standing = false;  // One server stands, on the last machine; else its part moves.
  std::optional<std::uint32_t> bare;  // A machine without an agent of the run.
  std::uint32_t machines = 2;
  // Leases of their own: a change of lease.h changes no history.
  Duration base_lease{1'000};
  Duration long_lease{3'000};
  Duration lease_per_node{9};
  std::vector<std::uint32_t> workers;  // Per machine.
  std::optional<std::uint32_t> twin;   // This machine says that it is n0, as the first one does.
  Program program = Program::kPlain;
  bool evicted = false;      // TERM is a scheduler's word, which takes machines one by one.
  Duration work{5'000};      // From "all nodes are here" to the end.
  bool state_dir = false;    // The server has one.
  Duration slow_disk{5};     // A record is on disk after this long at most.
  bool clock_jumps = false;  // A restarted server's wall clock may have gone back.
  Duration hang_timeout{0};  // 0: workers send no heartbeats.
  std::optional<std::size_t> run_bytes;  // None: as always.
  bool tells_steps = false;              // The program: as ddprun-train does.
  bool unproven = false;                 // Leases are long for the first minute of a run.
  bool asks_again = false;               // So does it: each world ends with 75, after hello.
  Weather weather;
  Conduct conduct;
  // ---- Where its part moves ----
  double stale_claims = 0;  // A read of claims shows what was long ago.
  bool shared_disk = true;  // Of checkpoints; else each machine has its own.
  double stale_listings = 0;
  double long_pauses = 0;   // Of rank 0, between any two operations on files.
  std::uint64_t steps = 0;  // Of the whole training,
  std::uint64_t save_every = 1;
  Duration step_time{100};
  std::size_t keep_last = 3;
  // ---- Where more may go wrong; empty: no machine is another one than the others ----
  std::vector<int> drifts;                  // Of clocks, in millionths.
  std::vector<Duration> shutdown_timeouts;  // As each node's command line says.
  std::optional<std::uint64_t> checks;  // Nodes have checks; of a stream of chance of their own.
  std::optional<SlowWork> slow;         // Nothing else happens.
  bool heedless = false;                // Rank 0 makes steps though its peers cannot be reached.
};

// Evidence of a hang fits into the product's own; most histories were drawn with a shorter one.
inline Duration StopGraceOf(const Setup& setup) {
  return setup.slow ? AgentConfig{}.stop_grace : 2s;
}

// One world's workers, wherever they run: a program that works only while all of it is there.
struct Job {
  std::uint32_t size = 0;
  std::set<std::uint32_t> joined;
  bool broken = false;
  bool done = false;
  bool hung = false;
  std::map<std::uint32_t, std::uint64_t> steps;  // By rank; none is two ahead of another.
  std::map<std::uint32_t, Machine*> where;       // By rank.
  std::uint64_t first_step = 0;                  // Where it resumed.
  std::optional<Time> began;                     // All nodes were there.
  std::unique_ptr<Workload> workload;            // Where the setup has slow work.

  bool whole() const { return joined.size() == size; }
  // A hang may be found: some worker hangs, or waits for one that died.
  bool MayHang() const { return hung || broken; }
  // The rank's next step, or its last one again while its peers are behind.
  std::uint64_t Step(std::uint32_t rank) {
    std::uint64_t& own = steps[rank];
    const auto behind = [&](std::uint32_t other) { return steps[other] < own; };
    return own += whole() && std::ranges::none_of(joined, behind) ? 1 : 0;
  }
};

class Simulation {
 public:
  Simulation(const Setup& setup, std::uint64_t seed, bool words);
  ~Simulation();

  Time Now() const { return event_queue.Now(); }
  template <class... Parts>
  void Tell(const std::string& who, const Parts&... parts) {
    transcript.Tell(Now(), who, parts...);
  }

  // Everything due until `end` happens, or until a law is broken.
  void RunUntil(Time end) {
    while (!laws.broken() && event_queue.DoNext(end)) {
    }
  }
  // No more faults: calm weather, well-behaved workers, every machine in order again.
  void Heal();
  // By some server, to some agent.
  void OutcomeTold(Term term, const NodeKey& key);
  // No agent lives any more.
  bool Quiet() const;

  // Carries a message between machines, as the weather allows; `arrive` may happen not at all,
  // late, or twice.
  void Deliver(std::uint32_t from, std::uint32_t to, std::function<void()> arrive);
  // The network is in order from one machine to the other; and both have power.
  bool Carries(std::uint32_t from, std::uint32_t to) const;
  bool Reaches(std::uint32_t from, std::uint32_t to) const;
  Duration Delay() {
    const Weather& weather = setup.weather;
    return random.Chance(weather.slow) ? random.Between(weather.min_delay, weather.slow_max)
                                       : random.Between(weather.min_delay, weather.max_delay);
  }
  Duration LongestLease() const {
    return std::max<Duration>(setup.long_lease, setup.lease_per_node * setup.machines);
  }
  void WorkerJoined(Machine& machine, const Placement& placement, std::uint32_t rank);
  // Of the world; where the setup has slow work.
  Workload& WorkloadOf(WorldId world, std::uint32_t ranks) {
    Job& job = jobs_[world];
    if (!job.workload) {
      job.workload =
          std::make_unique<Workload>(event_queue, random, *setup.slow, setup.hang_timeout, ranks);
      last_workload_ = job.workload.get();
    }
    return *job.workload;
  }
  void WorkerDied(Machine& machine, WorldId world, std::uint32_t rank, bool finished);
  void FinishWorld(WorldId world);
  Job& job(WorldId world) { return jobs_[world]; }
  const Workload* last_workload() const { return last_workload_; }

  // How far a world's workers have got by now: twenty steps a second, saved every forty.
  std::uint64_t StepOf(WorldId world) {
    const Job& job = jobs_[world];
    if (!job.began) {
      return 0;
    }
    const auto steps = static_cast<std::uint64_t>((Now() - *job.began) / kStep);
    reached_ = std::max(reached_, job.first_step + steps);
    return job.first_step + steps;
  }

  EventQueue event_queue;
  Random random;
  Setup setup;
  Transcript transcript;
  Laws laws;
  std::vector<std::unique_ptr<Machine>> machines;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cuts;  // One way, between two machines.
  bool names = true;                            // Else whatever name is looked up is never found,
  bool names_fail = false;                      // or no node has it.
  std::unique_ptr<RunDirectory> run_directory;  // Where the server's part moves.
  std::unique_ptr<Training> training;           // The workers' program; none: they wait.

 private:
  static constexpr Duration kStep{50};

  const Workload* last_workload_ = nullptr;
  void TellPeer(const Machine& from, Machine& to, WorldId world);
  void FinishAfterWork(WorldId world) {
    event_queue.After(setup.work, [this, world] {
      const Job& ended = jobs_[world];
      if (!ended.hung && (!ended.broken || setup.program == Program::kIndependent)) {
        FinishWorld(world);
      }
    });
  }

  std::map<WorldId, Job> jobs_;
  std::uint64_t reached_ = 0;  // By any world.
};

}  // namespace ddprun::sim
