// What the kernel's files tell of this machine's disks, links and memory. Any of them may hang, so
// these are called on threads that may be left behind.
#pragma once

#include <filesystem>

#include "agent/host/host_readings.h"
#include "agent/workers/gpu_list.h"

namespace ddprun {

// Real network cards and InfiniBand ports, 64 at most; and /proc/pressure/memory.
KernelReadings ReadKernel(const MachineRoots& roots);

DiskReading ReadDisk(const std::filesystem::path& place);

}  // namespace ddprun
