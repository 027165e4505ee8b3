// libddprun_cuda.so: see cuda_api.h. The only file that is compiled against CUDA's headers.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/device/cuda_api.h"

struct DdprunCudaGraph {
  at::cuda::CUDAGraph graph;
  at::cuda::MempoolId_t pool{0, 0};  // Of what it computes; known once it is finished.
};

namespace {

void Explain(DdprunCudaReason* reason, const char* text) {
  std::snprintf(reason->text, sizeof reason->text, "%s", text);
}

template <class Call>
int Try(DdprunCudaReason* reason, Call call) {
  try {
    call();
    return kDdprunCudaOk;
  } catch (const c10::DistError& error) {
    Explain(reason, error.what_without_backtrace());
    // The library reports the GPU's own errors in the same way.
    return std::strstr(reason->text, "CUDA error") != nullptr ? kDdprunCudaFailed
                                                              : kDdprunCudaPeerGone;
  } catch (const c10::Error& error) {
    Explain(reason, error.what_without_backtrace());
  } catch (const std::exception& error) {
    Explain(reason, error.what());
  } catch (...) {
    Explain(reason, "an unknown exception");
  }
  return kDdprunCudaFailed;
}

int CountDevices(int* count, DdprunCudaReason* reason) {
  return Try(reason, [&] {
    *count = 0;
    const cudaError_t error = cudaGetDeviceCount(count);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();  // Or the next call would report it.
      *count = 0;
      Explain(reason, cudaGetErrorString(error));
    } else {
      Explain(reason, *count == 0 ? "CUDA sees no device" : "");
    }
  });
}

int SetDevice(int device, DdprunCudaReason* reason) {
  return Try(reason, [&] { c10::cuda::set_device(static_cast<c10::DeviceIndex>(device)); });
}

int Describe(int device, DdprunCudaDevice* out, DdprunCudaReason* reason) {
  return Try(reason, [&] {
    const cudaDeviceProp* const found =
        at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
    std::snprintf(out->name, sizeof out->name, "%s", found->name);
    char* at = out->identity;
    for (const char byte : found->uuid.bytes) {
      at += std::snprintf(at, 3, "%02x", static_cast<unsigned char>(byte));
    }
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    out->free_bytes = free_bytes;
    out->total_bytes = total_bytes;
  });
}

int MakeNccl(c10d::Store* store, int rank, int size, int device, std::int64_t timeout_ms,
             c10d::Backend** out, DdprunCudaReason* reason) {
  return Try(reason, [&] {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::milliseconds(timeout_ms);
    const auto shared = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(shared, rank, size, options);
    const at::Device here(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    backend->setBoundDeviceId(here);
    // Now, not in the first backward: errors are reported while all ranks join.
    backend->eagerConnectSingleDevice(here);
    *out = backend.release();
  });
}

int MakeGraph(DdprunCudaGraph** out, DdprunCudaReason* reason) {
  return Try(reason, [&] { *out = new DdprunCudaGraph; });
}

int BeginGraph(DdprunCudaGraph* graph, const DdprunCudaGraph* other, DdprunCudaReason* reason) {
  return Try(reason, [&] {
    const at::cuda::MempoolId_t own{0, 0};
    // Other threads continue using the GPU meanwhile: the copier of snapshots, NCCL's watchdog.
    graph->graph.capture_begin(other == nullptr ? own : other->pool,
                               cudaStreamCaptureModeThreadLocal);
  });
}

int EndGraph(DdprunCudaGraph* graph, DdprunCudaReason* reason) {
  return Try(reason, [&] {
    graph->graph.capture_end();
    graph->pool = graph->graph.pool();
  });
}

int ReplayGraph(DdprunCudaGraph* graph, DdprunCudaReason* reason) {
  return Try(reason, [&] { graph->graph.replay(); });
}

void FreeGraph(DdprunCudaGraph* graph) {
  DdprunCudaReason unread{};
  (void)Try(&unread, [&] { delete graph; });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const DdprunCudaApi* ddprun_cuda_api() {
  static const DdprunCudaApi api = {.version = kDdprunCudaVersion,
                                    .torch_version = TORCH_VERSION,
                                    .nccl_version = NCCL_VERSION_CODE,
                                    .count_devices = CountDevices,
                                    .set_device = SetDevice,
                                    .describe = Describe,
                                    .make_nccl = MakeNccl,
                                    .make_graph = MakeGraph,
                                    .begin_graph = BeginGraph,
                                    .end_graph = EndGraph,
                                    .replay_graph = ReplayGraph,
                                    .free_graph = FreeGraph};
  return &api;
}
