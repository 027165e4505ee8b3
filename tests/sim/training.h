// What workers do where their world is whole: rank 0 claims the checkpoints, loads their head,
// makes steps and saves, through the real checkpoint store; the others load what it tells them to.
//
//   claim -> load -> everybody has loaded -> step, save, step, save, ... -> close -> all end with 0
//   refused by the fence, at any of these or when it looks (each second) -> rank 0 ends with 76
//
// Steps need all ranks to reach each other, unless the program is heedless: then rank 0 goes on
// saving whatever becomes of its peers, as the worst of stragglers would.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/messages/messages.h"
#include "tests/sim/fiber.h"
#include "tests/sim/process_files.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace ddprun::sim {

class Machine;
class Simulation;

class Training {
 public:
  explicit Training(Simulation& simulation);
  ~Training();

  // All ranks of this world have come.
  void Begin(const Placement& placement);
  void WorkerDied(WorldId world, std::uint32_t rank);
  // A machine's own disk loses what was not forced onto it.
  void OnPowerCut(std::uint32_t machine);
  // What a machine asks of it hangs meanwhile.
  void SetDisk(std::uint32_t machine, bool reachable) { reachable_[machine] = reachable; }
  // Or fails, with a number of errno's; 0: not any more.
  void FailDisk(std::uint32_t machine, int error) { errors_[machine] = error; }
  void Heal();

  std::uint64_t commits() const;
  std::uint64_t refused() const { return refused_; }

 private:
  // A rank that has to do with checkpoints.
  struct Process {
    Process(Training& training, Disk& disk, Machine& machine, const Placement& placement,
            std::uint32_t rank);
    // It does not go on from here where it is on its way out.
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

  Disk& DiskOf(const Machine& machine);
  Process& Add(Machine& machine, const Placement& placement, std::uint32_t rank);
  void RunRankZero(Process& process);
  void Claim(Process& process);
  std::optional<LoadedCheckpoint> Load(Process& process);
  void LoadElsewhere(Process& process, const CheckpointRef& ref);
  void MakeSteps(Process& process, std::uint64_t step);
  void WatchFence(Process& process);
  void ExpectEndOfOlder(const Process& claimant);
  bool Together(const Process& process) const;
  // Refused, or broken in another way.
  [[noreturn]] void End(Process& process, const Error& error);

  Simulation& simulation_;
  std::map<std::uint32_t, std::unique_ptr<Disk>> disks_;  // By machine; of a shared one only 0.
  std::map<std::uint32_t, bool> reachable_;
  std::map<std::uint32_t, int> errors_;
  std::map<WorldId, int> loading_;  // Processes that have not loaded yet.
  std::uint64_t refused_ = 0;
  std::vector<std::unique_ptr<Process>> processes_;  // Last: they end before what they use.
};

}  // namespace ddprun::sim
