// Looks at this machine's GPUs for as long as the agent lives, each 10 s.
//
// The GPUs' driver is asked on a thread of its own, which may hang and is then left behind. It is
// not asked again before it has answered; until then it counts as silent, and that is reported.
// Nothing here waits. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/host/gpu_source.h"
#include "agent/host/host_judge.h"
#include "common/loop.h"

namespace ddprun {

struct HostWatchOptions {
  // The directories where the machine's facts are read: wrong ones find no GPU and no fault.
  MachineRoots roots;
  // The GPUs that are watched, as CUDA_VISIBLE_DEVICES has them; none: all, so a fault of a GPU
  // that the run does not use counts too.
  std::optional<std::string> visible_gpus;
};

class HostWatch {
 public:
  static constexpr Duration kPace{10'000};
  static constexpr Duration kLimit{3'000};  // For the driver to answer, or it counts as silent.

  // `looked` comes after each look, on the loop.
  HostWatch(Loop& loop, const HostWatchOptions& options,
            std::function<void(const HostView&)> looked);
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
  class Driver;

  void Look();
  void OnLooked();

  Loop& loop_;
  const std::function<void(const HostView&)> looked_;
  HostJudge judge_;
  HostView view_;
  std::optional<ClockOffset> clock_;
  Time clock_noted_;
  const std::unique_ptr<Driver> gpus_;
  LoopTimer timer_;
};

// Looks once, for a caller without a loop. Waits for a limited time.
HostView LookAtHost(const HostWatchOptions& options);

}  // namespace ddprun
