// libddprun_cuda.so, loaded: the only way to CUDA for programs that do not link it.
//
// Must be loaded before anything asks libtorch about GPUs: it keeps the first answer. Stays loaded
// until the process ends. Torch-free. Says in every error which file it was about, and what the
// loader or CUDA answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/device/step_graph.h"

struct DdprunCudaApi;
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
  static Result<GpuPlugin> Load(const std::filesystem::path& file = kFile);

  Result<DeviceCount> CountDevices() const;
  // For the calling thread; the first use of the GPU by this process.
  Result<void> SetDevice(int device) const;
  Result<DeviceFacts> Describe(int device) const;
  // NCCL between all ranks, connected. The caller takes over the reference. kUnavailable: a peer is
  // gone.
  Result<c10d::Backend*> MakeNccl(c10d::Store* store, int rank, int size, int device,
                                  std::chrono::milliseconds timeout) const;
  std::unique_ptr<StepGraph> MakeStepGraph() const;
  // "2.30.7"
  std::string NcclVersion() const;

 private:
  GpuPlugin(std::filesystem::path path, const DdprunCudaApi& api);

  std::filesystem::path path_;
  const DdprunCudaApi* api_;
};

}  // namespace ddprun
