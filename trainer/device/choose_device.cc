#include "trainer/device/choose_device.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/files.h"
#include "common/text.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

// The files that the driver makes, one for each GPU that this process may open.
std::vector<std::string> DriverFiles() {
  std::vector<std::string> files;
  for (const fs::path& path : EntriesOf("/dev")) {
    const std::string name = path.filename();
    constexpr std::string_view kPrefix = "nvidia";
    if (name.starts_with(kPrefix) && IsDigits(name.substr(kPrefix.size()))) {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string Visible(const GpusHere& here) {
  return here.visible ? " (CUDA_VISIBLE_DEVICES='" + *here.visible + "')" : "";
}

// Why no GPU can be used; empty: one can.
std::string Obstacle(const GpusHere& here) {
  if (here.trouble) {
    return here.trouble->message;
  }
  if (here.devices.count == 0) {
    return "CUDA finds no GPU" + Visible(here) + ": " + here.devices.why_none;
  }
  return "";
}

std::string Driver(const GpusHere& here) {
  return here.driver_files.empty() ? "there is no /dev/nvidia0 or the like, so no NVIDIA driver"
                                   : "the driver shows " + Joined(here.driver_files, ", ");
}

std::string Asked(const DeviceSpec& spec, BackendChoice backend) {
  if (spec.kind != DeviceKind::kCuda) {
    return backend == BackendChoice::kNccl ? "--backend=nccl" : "--device=auto";
  }
  return "--device=cuda" + (spec.index ? ":" + std::to_string(*spec.index) : "");
}

// Every rank of the node sees the same GPUs, or one of its own (--virtual-local-rank).
Result<Device> ChooseGpu(const DeviceSpec& spec, BackendChoice backend, const WorkerEnv& env,
                         const GpusHere& here) {
  const int count = here.devices.count;
  const std::string there =
      std::to_string(count) + (count == 1 ? " GPU" : " GPUs") + " can be seen here" + Visible(here);
  const bool share = backend == BackendChoice::kGloo;
  if (spec.index) {
    if (*spec.index >= count) {
      return Error{ErrorKind::kInvalid, Asked(spec, backend) + ": " + there};
    }
    if (env.local_world_size > 1 && !share) {
      return Error{ErrorKind::kInvalid,
                   Asked(spec, backend) + " puts all " + std::to_string(env.local_world_size) +
                       " ranks of this node on one GPU, which NCCL refuses. --device=cuda gives "
                       "each its own; --backend=gloo lets them share one [shared-gpu]"};
    }
    return Device{.kind = DeviceKind::kCuda, .index = *spec.index};
  }
  const auto local = static_cast<int>(env.local_rank);
  // With one GPU made visible to each, local ranks are all 0; a shared one is found in the group.
  const bool own = count == 1 && local == 0 && here.visible;
  if (local >= count || (static_cast<int>(env.local_world_size) > count && !own)) {
    return Error{
        ErrorKind::kInvalid,
        Asked(spec, backend) + ": " + std::to_string(env.local_world_size) +
            " ranks on this node, and " + there +
            "; each rank needs its own. Start fewer (--nproc-per-node=" + std::to_string(count) +
            "), or train on the CPU with --device=cpu [shared-gpu]"};
  }
  return Device{.kind = DeviceKind::kCuda, .index = local};
}

}  // namespace

std::optional<DeviceSpec> ParseDevice(std::string_view text) {
  if (const auto kind = MeaningOf<DeviceKind>(
          text,
          {{"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}})) {
    return DeviceSpec{*kind, std::nullopt};
  }
  constexpr std::string_view kPrefix = "cuda:";
  const auto index = ParseNumber<int>(text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : "");
  return index && *index >= 0 && *index <= 127 ? std::optional(DeviceSpec{DeviceKind::kCuda, index})
                                               : std::nullopt;
}

Result<Device> ChooseDevice(const DeviceSpec& spec, BackendChoice backend, const WorkerEnv& env,
                            const GpusHere& here) {
  const bool demanded = spec.kind == DeviceKind::kCuda || backend == BackendChoice::kNccl;
  if (spec.kind == DeviceKind::kCpu || backend == BackendChoice::kShm ||
      (here.driver_files.empty() && !demanded)) {
    return Device{};
  }
  const std::string obstacle = Obstacle(here);
  if (obstacle.empty()) {
    return ChooseGpu(spec, backend, env, here);
  }
  if (demanded) {
    return Error{ErrorKind::kInvalid, Asked(spec, backend) + " needs a GPU: " + obstacle + "; " +
                                          Driver(here) +
                                          ". --device=cpu --backend=auto trains "
                                          "without one [needs-gpu]"};
  }
  return Device{.note = "training on the CPU although " + Driver(here) + ": " + obstacle};
}

bool MayUseGpu(const DeviceSpec& spec, BackendChoice backend) {
  const bool demanded = spec.kind == DeviceKind::kCuda || backend == BackendChoice::kNccl;
  const bool hidden = GetProcessEnv("CUDA_VISIBLE_DEVICES") == "";
  const bool possible = backend != BackendChoice::kShm && !hidden && !DriverFiles().empty();
  return spec.kind != DeviceKind::kCpu && (demanded || possible);
}

Result<Device> OpenDevice(const DeviceSpec& spec, BackendChoice backend, const WorkerEnv& env) {
  const GpuPlugin* plugin = nullptr;
  GpusHere here{.driver_files = DriverFiles(), .visible = GetProcessEnv("CUDA_VISIBLE_DEVICES")};
  if (MayUseGpu(spec, backend)) {
    const Result<const GpuPlugin*> loaded = GpuPlugin::Load();
    if (!loaded) {
      here.trouble = loaded.error();
    } else if (Result<DeviceCount> devices = (*loaded)->CountDevices(); !devices) {
      here.trouble = devices.error();
    } else {
      here.devices = *devices;
      plugin = *loaded;
    }
  } else {
    here.driver_files.clear();
  }
  Result<Device> device = ChooseDevice(spec, backend, env, here);
  if (device && device->kind == DeviceKind::kCuda) {
    RETURN_IF_ERROR(plugin->SetDevice(device->index));
    device->plugin = plugin;
  }
  return device;
}

}  // namespace ddprun
