// Where a rank computes: the one place that decides it, from --device, the launcher's environment
// and the GPUs that are there.
//
// The driver's files tell whether there is a GPU, without CUDA, so that a machine without one never
// loads CUDA's libraries. One process per GPU: LOCAL_RANK names it among those that
// CUDA_VISIBLE_DEVICES leaves visible. ChooseDevice is pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "proto/worker_env.h"
#include "trainer/backend.h"
#include "trainer/device/gpu_plugin.h"

namespace ddprun {

enum class DeviceKind {
  kAuto,  // A GPU where there is one that can be used.
  kCpu,
  kCuda,
};

// --device=auto|cpu|cuda|cuda:N
struct DeviceSpec {
  DeviceKind kind = DeviceKind::kAuto;
  std::optional<int> index;
};

std::optional<DeviceSpec> ParseDevice(std::string_view text);

struct GpusHere {
  std::vector<std::string> driver_files;  // "/dev/nvidia0"
  std::optional<std::string> visible;     // CUDA_VISIBLE_DEVICES
  std::optional<Error> trouble;           // Why the plug-in cannot be used; empty: it can.
  DeviceCount devices;                    // The devices that the plug-in counted.
};

struct Device {
  DeviceKind kind = DeviceKind::kCpu;  // Never kAuto.
  int index = 0;
  std::string note;                   // For a user who might have expected another one; or empty.
  const GpuPlugin* plugin = nullptr;  // Where it is a GPU, in use by this thread.
};

// kInvalid: the requested device is not available.
Result<Device> ChooseDevice(const DeviceSpec& spec, BackendChoice backend, const WorkerEnv& env,
                            const GpusHere& here);

// Whether OpenDevice loads the GPU plug-in. Decided from the request and the driver's files; never
// calls CUDA.
bool MayUseGpu(const DeviceSpec& spec, BackendChoice backend);

// With this machine's GPUs.
Result<Device> OpenDevice(const DeviceSpec& spec, BackendChoice backend, const WorkerEnv& env);

}  // namespace ddprun
