// Asks NVIDIA's driver about the GPUs, through its own library (libnvidia-ml.so.1), which is looked
// for when it is wanted first: neither building nor running needs it.
//
// Every call may hang with the driver, so this is used on a thread that may be left behind, one
// call at a time. A GPU cannot be reset while its driver is held, so it is let go after each
// reading that says a reset is due. Xids and UUIDs that it has read are remembered.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/host_readings.h"
#include "agent/workers/gpu_list.h"

namespace ddprun {

class GpuSource {
 public:
  // `visible`: as CUDA_VISIBLE_DEVICES; none: all GPUs are the run's.
  GpuSource(MachineRoots roots, std::optional<std::string> visible);
  ~GpuSource();

  GpuReadings Read();

  // Whether the kernel shows a driver. Reads nothing else.
  static bool Present(const MachineRoots& roots);

 private:
  class Library;
  GpuReading ReadOne(std::uint32_t index);
  void TakeXids();
  void AddGone(std::vector<GpuReading>& gpus);
  void LetGo();

  const MachineRoots roots_;
  const std::optional<std::string> visible_;
  std::unique_ptr<Library> library_;
  std::map<std::uint32_t, GpuReading> known_;  // By index: facts that outlive a reading.
  std::map<std::string, GpuReading> seen_;     // By UUID: those that were there.
};

// Whether a list as CUDA_VISIBLE_DEVICES means this GPU; where its UUID is not known, whether it
// may.
bool IsVisibleGpu(const std::optional<std::string>& list, std::uint32_t index,
                  const std::string& uuid);

}  // namespace ddprun
