// libddprun_cuda.so: the only way to CUDA for programs that do not link it, so that they start on a
// machine without a driver. Everything else that runs on a GPU goes through libtorch's dispatcher,
// which finds the kernels once the plug-in has brought libtorch_cuda along.
//
// Must be loaded before anything asks libtorch about GPUs: it keeps the first answer. Stays loaded
// until the process ends. Torch-free. Says in every error which file it was about, and what the
// loader or CUDA answered. No exception leaves it, but those of the work that it records.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/device/step_graph.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace ddprun {

struct DeviceCount {
  int count = 0;
  std::string why_none;  // CUDA's message if there is none.
};

struct DeviceFacts {
  std::string name;      // "NVIDIA H100 80GB HBM3"
  std::string identity;  // The same for the same GPU in every process.
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

class GpuPlugin {
 public:
  // Its name alone is looked for as a shared library of the running program. The program's RUNPATH
  // names the directory: ../lib/ddprun for programs of ddprun, and that of the installed library
  // for others.
  static constexpr const char* kFile = "libddprun_cuda.so";

  // kNotFound: there is no such file. kSystem: it cannot be loaded.
  static Result<const GpuPlugin*> Load(const std::filesystem::path& file = kFile);

  virtual ~GpuPlugin() = default;
  virtual Result<DeviceCount> CountDevices() const = 0;
  // For the calling thread; the first use of the GPU by this process.
  virtual Result<void> SetDevice(int device) const = 0;
  virtual Result<DeviceFacts> Describe(int device) const = 0;
  // NCCL between all ranks, connected. The caller takes over the reference. kUnavailable: a peer is
  // gone.
  virtual Result<c10d::Backend*> MakeNccl(c10d::Store* store, int rank, int size, int device,
                                          std::chrono::milliseconds timeout) const = 0;
  virtual std::unique_ptr<StepGraph> MakeStepGraph() const = 0;
  // "2.30.7"
  virtual std::string NcclVersion() const = 0;
};

// The only symbol of the plug-in that is looked up. Its number changes with this header: a plug-in
// of another source is refused. `path`: the plug-in's file.
using MakeGpuPlugin = const GpuPlugin*(const char* path);
inline constexpr const char* kMakeGpuPlugin = "ddprun_gpu_plugin_4";

}  // namespace ddprun
