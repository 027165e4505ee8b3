// Looks at this machine for as long as the agent lives: its GPUs, disks, links and memory, each 10
// s.
//
// Each source is asked on a thread of its own that may be left behind: what hangs is not asked
// again before it has answered, and counts as silent meanwhile, which is a fact too. Nothing here
// waits. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/gpu_source.h"
#include "agent/host/host_judge.h"
#include "common/loop.h"

namespace ddprun {

struct HostWatchOptions {
  MachineRoots roots;
  std::optional<std::string> visible_gpus;                  // As CUDA_VISIBLE_DEVICES.
  std::vector<std::pair<std::string, std::string>> places;  // Where the run writes: name, path.
};

class HostWatch {
 public:
  static constexpr Duration kPace{10'000};
  static constexpr Duration kLimit{3'000};  // Of one source, until it counts as silent.

  // `looked` comes after each look at all of it, on the loop.
  HostWatch(Loop& loop, HostWatchOptions options, std::function<void(const HostView&)> looked);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  void Start();
  void Stop();

  // A fresh look at the GPUs: `refusal` comes on the loop, later, within kLimit; "": nothing
  // refuses this machine, or its driver did not answer.
  void AskGpus(std::function<void(std::string refusal)> refusal);

  void NoteClock(const ClockOffset& offset);
  const HostView& view() const { return view_; }

 private:
  template <class Reading>
  class Source;

  void Look();
  void OnLooked();

  Loop& loop_;
  const HostWatchOptions options_;
  const std::function<void(const HostView&)> looked_;
  HostJudge judge_;
  HostView view_;
  std::optional<ClockOffset> clock_;
  Time clock_noted_;
  std::shared_ptr<Source<GpuReadings>> gpus_;
  std::shared_ptr<Source<KernelReadings>> kernel_;
  std::vector<std::shared_ptr<Source<DiskReading>>> disks_;
  std::size_t awaited_ = 0;  // Sources that have not answered this look.
  LoopTimer timer_;
};

// The same once, for who has no loop: waits, kLimit at most for each source, longer for GPUs.
HostView LookAtHost(const HostWatchOptions& options);

}  // namespace ddprun
