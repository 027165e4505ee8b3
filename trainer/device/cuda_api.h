// The functions that libddprun_cuda.so offers to the process that loads it: the calls that need
// CUDA's own libraries, so that the programs themselves link none and start on a machine without a
// driver.
//
// Plain C at the border: no exception leaves the plug-in. A call that fails returns its kind and
// leaves the reason in `reason`. Everything else that runs on a GPU goes through libtorch's
// dispatcher, which finds the kernels once the plug-in has brought libtorch_cuda along.
#pragma once

#include <cstddef>
#include <cstdint>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

extern "C" {

enum DdprunCudaStatus {
  kDdprunCudaOk = 0,
  kDdprunCudaFailed = 1,
  kDdprunCudaPeerGone = 2,
};

struct DdprunCudaReason {
  char text[1024];
};

struct DdprunCudaDevice {
  char name[256];
  char identity[64];  // The same for the same GPU in every process.
  std::uint64_t free_bytes;
  std::uint64_t total_bytes;
};

// Work for the GPU, kept to be launched again.
struct DdprunCudaGraph;

struct DdprunCudaApi {
  std::uint32_t version;  // kDdprunCudaVersion of the plug-in.
  const char* torch_version;
  // Of NCCL, such as 23007.
  int nccl_version;

  // No device at all is no failure: `count` is 0 and `reason` says what CUDA answered.
  int (*count_devices)(int* count, DdprunCudaReason* reason);
  // The calling thread's. Begins to use the GPU.
  int (*set_device)(int device, DdprunCudaReason* reason);
  int (*describe)(int device, DdprunCudaDevice* out, DdprunCudaReason* reason);
  // Connects with all ranks. The caller owns one reference to `out`, which keeps one to the store.
  int (*make_nccl)(c10d::Store* store, int rank, int size, int device, std::int64_t timeout_ms,
                   c10d::Backend** out, DdprunCudaReason* reason);

  int (*make_graph)(DdprunCudaGraph** out, DdprunCudaReason* reason);
  // Work that is launched on the calling thread's current stream between these two is kept instead
  // of done; that stream must not be the default one. After a failure only free_graph is of use.
  // `other`: null, or a finished graph whose memory this one shall use too; the two never run at
  // the same time.
  int (*begin_graph)(DdprunCudaGraph* graph, const DdprunCudaGraph* other,
                     DdprunCudaReason* reason);
  int (*end_graph)(DdprunCudaGraph* graph, DdprunCudaReason* reason);
  int (*replay_graph)(DdprunCudaGraph* graph, DdprunCudaReason* reason);
  void (*free_graph)(DdprunCudaGraph* graph);
};

constexpr std::uint32_t kDdprunCudaVersion = 3;

// The only symbol that is looked up.
const DdprunCudaApi* ddprun_cuda_api();
using DdprunCudaApiFunction = const DdprunCudaApi* (*)();
constexpr const char* kDdprunCudaApiName = "ddprun_cuda_api";

}  // extern "C"
