// The workers' part where their world is whole: rank 0 claims the checkpoints, loads their head,
// makes steps and saves, through the real checkpoint store; the others load what it names.
//
//   claim -> load -> all have loaded -> step, save, step, save, ... -> close -> all end with 0
//   refused by the fence, at any of these or when it looks (each second) -> rank 0 ends with 76
//
// Steps need all ranks to reach each other, unless the program is heedless: then rank 0 continues
// saving whatever becomes of its peers, as the worst of stragglers would.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exit_code.h"
#include "rendezvous/messages/messages.h"
#include "tests/sim/fiber.h"
#include "tests/sim/machine.h"
#include "tests/sim/process_files.h"
#include "tests/sim/rules.h"
#include "tests/sim/simulation.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/checkpoint_testing.h"

namespace ddprun::sim {

class Training {
 public:
  explicit Training(Simulation& simulation) : simulation_(simulation) {}

  // All ranks of this world have come.
  void Begin(const Placement& placement) {
    const Job& job = simulation_.job(placement.world_id);
    Machine& machine = *job.where.at(0);
    if (!job.where.contains(0) || loading_.contains(placement.world_id)) {
      return;
    }
    loading_[placement.world_id] = 0;
    Placement shared = placement;
    shared.first_rank = shared.group_rank = 0;
    Process& process = Add(machine, shared, 0);
    process.disk.log.OnWorld(placement.world_id, placement.term, placement.generation);
    process.work = std::make_unique<Fiber>(simulation_.event_queue,
                                           [this, &process] { RunRankZero(process); });
  }
  void WorkerDied(WorldId world, std::uint32_t rank) {
    for (const auto& process : processes_) {
      if (process->placement.world_id == world && process->rank == rank) {
        const bool own_disk = !simulation_.setup.shared_disk;
        process->files.Kill(own_disk && !process->machine.powered());
      }
    }
  }
  // A machine's own disk loses what was not forced onto it.
  void OnPowerCut(std::uint32_t machine) {
    const auto found = disks_.find(machine);
    if (simulation_.setup.shared_disk || found == disks_.end()) {
      return;
    }
    Disk& disk = *found->second;
    disk.files.Restart(MemoryFileSystem::PowerCut::kLosesSome,
                       static_cast<unsigned>(simulation_.random.Next()));
    FenceLog fence(disk.files, kCheckpoints);
    std::vector<std::string> warnings;
    const auto newest = fence.Newest(warnings);
    disk.log.OnPowerCut(newest ? *newest : std::nullopt);
  }

 private:
  static constexpr int kBroken = 1;
  static constexpr Duration kLook{200};
  static constexpr std::uint64_t kSlowestStart = 40'000;  // Milliseconds.
  static constexpr Duration kLookAtFence{1'000};
  // An older world's rank 0 that nothing hinders has ended.
  static constexpr Duration kNoticed{6'000};

  static CheckpointConfig StoreConfig(const Setup& setup) {
    CheckpointConfig config = ConfigFor(kCheckpoints);
    config.keep_last = setup.keep_last;
    return config;
  }
  // A rank that has to do with checkpoints.
  struct Process {
    Process(Training& training, Disk& disk_of_it, Machine& machine_of_it,
            const Placement& placement_of_it, std::uint32_t rank_of_it)
        : machine(machine_of_it),
          disk(disk_of_it),
          placement(placement_of_it),
          rank(rank_of_it),
          files(training.simulation_, disk_of_it, machine_of_it),
          store(files, StoreConfig(training.simulation_.setup)) {}

    // It does not continue from here where it is on its way out.
    void GoOn() const {
      if (ended || files.dead()) {
        throw Fiber::Gone{};
      }
    }
    void Sleep(Duration duration) const {
      Fiber::Sleep(duration);
      GoOn();
    }

    Machine& machine;
    Disk& disk;
    const Placement placement;
    const std::uint32_t rank;
    ProcessFiles files;
    CheckpointStore store;
    bool ended = false;  // It is on its way out.
    // Last: what they have not done refers to the rest.
    std::unique_ptr<Fiber> work;
    std::unique_ptr<Fiber> watch;
  };

  Disk& DiskOf(const Machine& machine) {
    const std::uint32_t key = simulation_.setup.shared_disk ? 0 : machine.index();
    std::unique_ptr<Disk>& disk = disks_[key];
    if (!disk) {
      disk = std::make_unique<Disk>(simulation_.laws);
      for (const std::filesystem::path path : {"/nowhere-ddprun", kCheckpoints}) {
        (void)disk->files.MakeDirectory(path);
        (void)disk->files.Sync(path.parent_path());
      }
    }
    return *disk;
  }
  Process& Add(Machine& machine, const Placement& placement, std::uint32_t rank) {
    processes_.push_back(
        std::make_unique<Process>(*this, DiskOf(machine), machine, placement, rank));
    return *processes_.back();
  }
  void RunRankZero(Process& process) {
    // Now and then the start itself is slow enough for newer worlds to come first.
    const std::uint64_t chance = process.placement.world_id.value;
    const double slow = 20 * simulation_.setup.long_pauses;
    if (static_cast<double>(chance % 100) < 100 * slow) {
      process.Sleep(Duration{static_cast<Duration::rep>(chance / 100 % kSlowestStart)});
    }
    Claim(process);
    const std::optional<LoadedCheckpoint> loaded = Load(process);
    process.watch =
        std::make_unique<Fiber>(simulation_.event_queue, [this, &process] { WatchFence(process); });
    const WorldId world = process.placement.world_id;
    while (!Together(process)) {
      process.Sleep(kLook);
    }
    const std::map<std::uint32_t, Machine*> where = simulation_.job(world).where;
    for (const auto& [rank, machine] : where) {
      const auto below = where.find(rank - 1);
      const bool first =
          machine != &process.machine && (below == where.end() || below->second != machine);
      if (first && loaded && simulation_.setup.shared_disk) {
        ++loading_[world];
        Process& other = Add(*machine, process.placement, rank);
        other.work = std::make_unique<Fiber>(
            simulation_.event_queue,
            [this, &other, ref = loaded->ref] { LoadElsewhere(other, ref); });
      }
    }
    while (loading_[world] > 0) {
      process.Sleep(kLook);
    }
    MakeSteps(process, loaded ? loaded->snapshot.state.step : 0);
  }
  void Claim(Process& process) {
    const Placement& placement = process.placement;
    Must(process, process.store.Claim(
                      MakeWriter("run", placement.term, placement.generation, placement.world_id)));
    ExpectEndOfOlder(process);
  }
  std::optional<LoadedCheckpoint> Load(Process& process) {
    Result<LoadOutcome> outcome = process.store.Load();
    MustRead(process, outcome);
    const auto& found = outcome->checkpoint;
    process.disk.log.OnLoaded(process.placement.world_id,
                              found ? std::optional(found->ref) : std::nullopt,
                              process.files.failed() > 0);
    return std::move(outcome->checkpoint);
  }
  void LoadElsewhere(Process& process, const CheckpointRef& ref) {
    const Result<LoadedCheckpoint> loaded = process.store.LoadExactly(ref);
    process.GoOn();
    --loading_[process.placement.world_id];
    MustRead(process, loaded);
  }
  void MakeSteps(Process& process, std::uint64_t step) {
    const Setup& setup = simulation_.setup;
    while (step < setup.steps) {
      process.Sleep(setup.step_time * setup.save_every);
      if (process.machine.frozen() || !Together(process)) {
        continue;
      }
      step = std::min(step + setup.save_every, setup.steps);
      const Result<SaveReport> saved = process.store.Save(SnapshotAt(step));
      process.GoOn();
      if (saved) {
        process.disk.log.OnAcknowledged(saved->ref);
      } else if (saved.error().kind == ErrorKind::kRefused) {
        End(process, saved.error());
      }
    }
    Must(process, process.store.Close());
    process.ended = true;
    simulation_.FinishWorld(process.placement.world_id);
  }
  void WatchFence(Process& process) {
    while (!Without("reread")) {
      process.Sleep(kLookAtFence);
      const Result<void> mine = process.store.CheckFence();
      process.GoOn();
      if (!mine && mine.error().kind == ErrorKind::kRefused) {
        End(process, mine.error());
      }
    }
  }
  // Looking at the fence each second bounds how long a stale world runs beside a new one.
  void ExpectEndOfOlder(const Process& claimant) {
    for (const auto& process : processes_) {
      if (!process->watch || &process->disk != &claimant.disk || process.get() == &claimant ||
          process->ended || process->files.dead()) {
        continue;
      }
      const std::uint64_t hindered = process->files.hindered();
      const Duration old = simulation_.setup.stale_listings > 0 ? kOldestListing : 0ms;
      simulation_.event_queue.After(kNoticed + old, [this, &older = *process, hindered] {
        if (!older.ended && !older.files.dead() && older.files.hindered() == hindered &&
            !older.files.held() && !older.disk.log.Holds(older.placement.world_id)) {
          simulation_.laws.Break("generation ", older.placement.generation,
                                 " trains on beside a newer world's claim");
        }
      });
    }
  }
  bool Together(const Process& process) const {
    const Job& job = simulation_.job(process.placement.world_id);
    if (simulation_.setup.heedless) {
      return true;
    }
    return !job.broken && std::ranges::all_of(job.where, [&](const auto& entry) {
      const std::uint32_t here = process.machine.index();
      const std::uint32_t there = entry.second->index();
      return simulation_.Reaches(here, there) && simulation_.Reaches(there, here) &&
             !entry.second->frozen();
    });
  }
  // Its end, where that failed.
  template <class T>
  void Must(Process& process, const Result<T>& done) {
    process.GoOn();
    if (!done) {
      End(process, done.error());
    }
  }
  template <class T>
  void MustRead(Process& process, const Result<T>& read) {
    process.GoOn();
    if (!read && process.files.failed() == 0) {
      process.disk.log.OnUnreadable(process.placement.world_id, read.error().message);
    }
    Must(process, read);
  }
  // Refused, or broken in another way.
  [[noreturn]] void End(Process& process, const Error& error) {
    const bool refused = error.kind == ErrorKind::kRefused;
    process.machine.Tell("(rank ", process.rank, " ends: ", error.message, ")");
    process.ended = true;
    process.machine.workers().EndRank(process.placement.world_id, process.rank,
                                      Exited{refused ? kExitDoNotRestart : kBroken});
    throw Fiber::Gone{};
  }

  Simulation& simulation_;
  std::map<std::uint32_t, std::unique_ptr<Disk>> disks_;  // By machine; of a shared one only 0.
  std::map<WorldId, int> loading_;                        // Processes that have not loaded yet.
  std::vector<std::unique_ptr<Process>> processes_;       // Last: they end before what they use.
};

}  // namespace ddprun::sim
