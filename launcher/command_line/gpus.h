// This node's GPUs as variables and device files tell, and which of them a run may use (--gpus). No
// driver is asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/result.h"

namespace ddprun {

// As CUDA_VISIBLE_DEVICES and /dev/nvidia<n> tell.
std::uint32_t CountGpus();
// The same of a list, or none, and a number of devices (0: unknown): as CUDA does, an entry that
// names no GPU hides those behind it.
std::uint32_t CountVisible(const std::optional<std::string>& visible, std::uint32_t devices);
// As /dev/nvidia<n> tells alone.
std::uint32_t CountDevices(const std::filesystem::path& folder = "/dev");

// What ddprun itself may see: HIP_VISIBLE_DEVICES, which ROCm looks at first, or
// CUDA_VISIBLE_DEVICES; none: all there are.
std::optional<std::string> VisibleGpuList();

// "1,3" of `visible`, whose entries it counts, or of `devices` GPUs (0: not known); or UUIDs,
// "GPU-8f2a,MIG-...". As CUDA_VISIBLE_DEVICES names them, never one twice.
Result<std::string> ChooseGpus(const std::string& text, const std::optional<std::string>& visible,
                               std::uint32_t devices);

// From here on this process and its children see these alone. While it has one thread.
void ShowOnlyGpus(const std::string& list);

}  // namespace ddprun
