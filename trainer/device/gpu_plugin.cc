#include "trainer/device/gpu_plugin.h"

#include <dlfcn.h>
#include <link.h>

#include <exception>
#include <utility>
#include <vector>

#include "trainer/device/cuda_api.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

std::string LoaderError() {
  const char* const text = dlerror();
  return text == nullptr ? "the loader gave no reason" : text;
}

// `call` gives the plug-in's status, and has a place for its reason.
template <class Call>
Result<void> Try(const fs::path& path, const std::string& tried, Call call) {
  DdprunCudaReason reason{};
  const int status = call(&reason);
  if (status == kDdprunCudaOk) {
    return {};
  }
  std::string text(reason.text);
  text.resize(std::min(text.size(), text.find('\n')));  // Advice and stacks follow.
  return Error{status == kDdprunCudaPeerGone ? ErrorKind::kUnavailable : ErrorKind::kSystem,
               "cannot " + tried + " through '" + path.native() + "': " + text};
}

// The loader begins what it says with the file at fault: by its whole path if it was found, or a
// library that it needs.
bool IsAbsent(const fs::path& file, const std::string& said) {
  std::error_code error;
  return file.has_parent_path() ? !fs::exists(file, error) : said.starts_with(file.native() + ":");
}

fs::path PlaceOf(void* handle, const fs::path& otherwise) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? fs::path(map->l_name) : otherwise;
}

class CudaStepGraph : public StepGraph {
 public:
  CudaStepGraph(fs::path path, const DdprunCudaApi& api) : path_(std::move(path)), api_(&api) {}
  ~CudaStepGraph() override {
    for (DdprunCudaGraph* const graph : graphs_) {
      api_->free_graph(graph);
    }
  }
  CudaStepGraph(const CudaStepGraph&) = delete;
  CudaStepGraph& operator=(const CudaStepGraph&) = delete;

  Result<void> Record(const std::function<void()>& work) override {
    constexpr const char* kTried = "record the step as a CUDA graph";
    DdprunCudaGraph* graph = nullptr;
    RETURN_IF_ERROR(
        Try(path_, kTried, [&](auto* reason) { return api_->make_graph(&graph, reason); }));
    const DdprunCudaGraph* const other = graphs_.empty() ? nullptr : graphs_.front();
    graphs_.push_back(graph);
    RETURN_IF_ERROR(
        Try(path_, kTried, [&](auto* reason) { return api_->begin_graph(graph, other, reason); }));
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    // Also after a failure: the stream would keep all later work.
    const Result<void> ended =
        Try(path_, kTried, [&](auto* reason) { return api_->end_graph(graph, reason); });
    if (thrown) {
      std::rethrow_exception(thrown);
    }
    return ended;
  }

  Result<void> Replay(std::size_t number) override {
    return Try(path_, "start the step's CUDA graph",
               [&](auto* reason) { return api_->replay_graph(graphs_.at(number), reason); });
  }

 private:
  const fs::path path_;
  const DdprunCudaApi* const api_;
  std::vector<DdprunCudaGraph*> graphs_;
};

}  // namespace

Result<GpuPlugin> GpuPlugin::Load(const fs::path& file) {
  // Global: the plug-in's libtorch_cuda registers its kernels with the libtorch in here.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const std::string said = LoaderError();
    if (IsAbsent(file, said)) {
      return Error{ErrorKind::kNotFound, "the GPU plug-in '" + file.native() +
                                             "' is not there; scripts/build.sh --cuda builds it"};
    }
    return Error{ErrorKind::kSystem,
                 "cannot load the GPU plug-in '" + file.native() + "': " + said};
  }
  const fs::path path = PlaceOf(handle, file);
  const auto function = reinterpret_cast<DdprunCudaApiFunction>(dlsym(handle, kDdprunCudaApiName));
  if (function == nullptr) {
    return Error{ErrorKind::kSystem,
                 "'" + path.native() + "' is not a GPU plug-in of ddprun-train: " + LoaderError()};
  }
  const DdprunCudaApi& api = *function();
  if (api.version != kDdprunCudaVersion) {
    return Error{ErrorKind::kSystem, "the GPU plug-in '" + path.native() + "' has version " +
                                         std::to_string(api.version) + ", but this program needs " +
                                         std::to_string(kDdprunCudaVersion) +
                                         ". Build both from the same source"};
  }
  return GpuPlugin(path, api);
}

GpuPlugin::GpuPlugin(fs::path path, const DdprunCudaApi& api)
    : path_(std::move(path)), api_(&api) {}

Result<DeviceCount> GpuPlugin::CountDevices() const {
  DeviceCount found;
  RETURN_IF_ERROR(Try(path_, "count the GPUs", [&](auto* reason) {
    const int status = api_->count_devices(&found.count, reason);
    found.why_none = reason->text;
    return status;
  }));
  return found;
}

Result<void> GpuPlugin::SetDevice(int device) const {
  return Try(path_, "use GPU " + std::to_string(device),
             [&](auto* reason) { return api_->set_device(device, reason); });
}

Result<DeviceFacts> GpuPlugin::Describe(int device) const {
  DdprunCudaDevice out{};
  RETURN_IF_ERROR(Try(path_, "ask about GPU " + std::to_string(device),
                      [&](auto* reason) { return api_->describe(device, &out, reason); }));
  return DeviceFacts{out.name, out.identity, out.free_bytes, out.total_bytes};
}

Result<c10d::Backend*> GpuPlugin::MakeNccl(c10d::Store* store, int rank, int size, int device,
                                           std::chrono::milliseconds timeout) const {
  c10d::Backend* backend = nullptr;
  RETURN_IF_ERROR(Try(path_,
                      "connect rank " + std::to_string(rank) + " of " + std::to_string(size) +
                          " on GPU " + std::to_string(device) + " with NCCL " + NcclVersion(),
                      [&](auto* reason) {
                        return api_->make_nccl(store, rank, size, device, timeout.count(), &backend,
                                               reason);
                      }));
  return backend;
}

std::unique_ptr<StepGraph> GpuPlugin::MakeStepGraph() const {
  return std::make_unique<CudaStepGraph>(path_, *api_);
}

std::string GpuPlugin::NcclVersion() const {
  const int code = api_->nccl_version;  // 23007
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

}  // namespace ddprun
