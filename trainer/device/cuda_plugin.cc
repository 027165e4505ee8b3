// libddprun_cuda.so: see gpu_plugin.h. The only file that is compiled against CUDA's headers.
#include "trainer/device/gpu_plugin.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Error Failed(const fs::path& path, const std::string& tried, std::string text, ErrorKind kind) {
  text.resize(std::min(text.size(), text.find('\n')));  // Advice and stacks follow.
  return {kind, "cannot " + tried + " through '" + path.native() + "': " + text};
}

template <class Call>
Result<void> Try(const fs::path& path, const std::string& tried, Call call) {
  try {
    call();
    return {};
  } catch (const c10::DistError& error) {
    const std::string text = error.what_without_backtrace();
    // The library reports the GPU's own errors in the same way.
    const bool own = text.find("CUDA error") != std::string::npos;
    return Failed(path, tried, text, own ? ErrorKind::kSystem : ErrorKind::kUnavailable);
  } catch (const c10::Error& error) {
    return Failed(path, tried, error.what_without_backtrace(), ErrorKind::kSystem);
  } catch (const std::exception& error) {
    return Failed(path, tried, error.what(), ErrorKind::kSystem);
  }
}

class CudaStepGraph final : public StepGraph {
 public:
  explicit CudaStepGraph(fs::path path) : path_(std::move(path)) {}
  ~CudaStepGraph() override {
    for (std::unique_ptr<at::cuda::CUDAGraph>& graph : graphs_) {
      (void)Try(path_, "free the step's CUDA graph", [&] { graph.reset(); });
    }
  }

  Result<void> Record(const std::function<void()>& work) override {
    constexpr const char* kTried = "record the step as a CUDA graph";
    RETURN_IF_ERROR(Try(path_, kTried, [&] {
      const at::cuda::MempoolId_t pool =
          graphs_.empty() ? at::cuda::MempoolId_t{0, 0} : graphs_.front()->pool();
      graphs_.push_back(std::make_unique<at::cuda::CUDAGraph>());
      // Other threads continue using the GPU meanwhile: the copier of snapshots, NCCL's watchdog.
      graphs_.back()->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    }));
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    // Also after a failure: the stream would keep all later work.
    const Result<void> ended = Try(path_, kTried, [&] { graphs_.back()->capture_end(); });
    if (thrown) {
      std::rethrow_exception(thrown);
    }
    return ended;
  }

  Result<void> Replay(std::size_t number) override {
    return Try(path_, "start the step's CUDA graph", [&] { graphs_.at(number)->replay(); });
  }

 private:
  const fs::path path_;
  std::vector<std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
};

class CudaPlugin final : public GpuPlugin {
 public:
  explicit CudaPlugin(fs::path path) : path_(std::move(path)) {}

  Result<DeviceCount> CountDevices() const override {
    DeviceCount found;
    const cudaError_t error = cudaGetDeviceCount(&found.count);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();  // Or the next call would report it.
      return DeviceCount{0, cudaGetErrorString(error)};
    }
    found.why_none = found.count == 0 ? "CUDA sees no device" : "";
    return found;
  }

  Result<void> SetDevice(int device) const override {
    return Try(path_, "use GPU " + std::to_string(device),
               [&] { c10::cuda::set_device(static_cast<c10::DeviceIndex>(device)); });
  }

  Result<DeviceFacts> Describe(int device) const override {
    DeviceFacts facts;
    RETURN_IF_ERROR(Try(path_, "ask about GPU " + std::to_string(device), [&] {
      const cudaDeviceProp* const found =
          at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
      facts.name = found->name;
      for (const char byte : found->uuid.bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
        facts.identity += digits;
      }
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
      facts.free_bytes = free_bytes;
      facts.total_bytes = total_bytes;
    }));
    return facts;
  }

  Result<c10d::Backend*> MakeNccl(c10d::Store* store, int rank, int size, int device,
                                  std::chrono::milliseconds timeout) const override {
    c10d::Backend* out = nullptr;
    RETURN_IF_ERROR(Try(path_,
                        "connect rank " + std::to_string(rank) + " of " + std::to_string(size) +
                            " on GPU " + std::to_string(device) + " with NCCL " + NcclVersion(),
                        [&] {
                          const auto options = c10d::ProcessGroupNCCL::Options::create();
                          options->timeout = timeout;
                          const auto shared = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
                          auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(shared, rank,
                                                                                     size, options);
                          const at::Device here(at::kCUDA, static_cast<c10::DeviceIndex>(device));
                          backend->setBoundDeviceId(here);
                          // Now, not in the first backward: errors are reported while all ranks
                          // join.
                          backend->eagerConnectSingleDevice(here);
                          out = backend.release();
                        }));
    return out;
  }

  std::unique_ptr<StepGraph> MakeStepGraph() const override {
    return std::make_unique<CudaStepGraph>(path_);
  }

  std::string NcclVersion() const override {
    return std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + "." +
           std::to_string(NCCL_PATCH);
  }

 private:
  const fs::path path_;
};

}  // namespace
}  // namespace ddprun

extern "C" __attribute__((visibility("default"))) ddprun::MakeGpuPlugin ddprun_gpu_plugin_4;

const ddprun::GpuPlugin* ddprun_gpu_plugin_4(const char* path) {
  static const ddprun::CudaPlugin plugin(path);
  return &plugin;
}
