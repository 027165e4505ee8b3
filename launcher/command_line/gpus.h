// This node's GPUs as variables and device files tell, and which of them a run may use (--gpu-ids).
// No driver is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/workers/gpu_list.h"
#include "common/result.h"
#include "proto/worker_env.h"

namespace ddprun {

struct GpusCounted {
  std::uint32_t count = 0;
  std::string maker;  // "AMD"; of no maker that is known here: "listed".
};

// Those that a program started here would see (gpu_list.h).
GpusCounted CountGpus(const MachineRoots& roots = {}, const GetEnv& get_env = GetProcessEnv);
// The number of this machine's GPUs, also of those that variables hide.
std::uint32_t CountDevices();

// The GPUs that ddprun itself may see: HIP_VISIBLE_DEVICES, which ROCm looks at first, or
// CUDA_VISIBLE_DEVICES; none: all there are.
std::optional<std::string> VisibleGpuList();

// "1,3" of `visible`, whose entries it counts, or of `devices` GPUs (0: not known); or UUIDs,
// "GPU-8f2a,MIG-...". As CUDA_VISIBLE_DEVICES names them, never one twice.
Result<std::string> ChooseGpus(const std::string& text, const std::optional<std::string>& visible,
                               std::uint32_t devices);

// "". Of one number that may be meant as a count: "; for 8 workers set --nproc-per-node=8".
std::string PerhapsACount(const std::string& text);

// From here on this process and its children see these alone. While it has one thread.
void ShowOnlyGpus(const std::string& list);

}  // namespace ddprun
