// How libtorch computes in this process. Torch-free.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/device/choose_device.h"

namespace ddprun {

// Fixed for the process, before any other use of libtorch.
void SetThreads(int threads);

// Likewise. From then on an operation that cannot repeat its bits is an error.
void DemandDeterminism();

// Of this process on its GPU, as libtorch's allocator counts it.
struct DeviceMemory {
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
};
// None: it is the CPU.
std::optional<DeviceMemory> MemoryOf(const Device& device);

}  // namespace ddprun
