#include "agent/host/gpu_source.h"

#include <dlfcn.h>

#include <algorithm>
#include <system_error>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr const char* kLibraryName = "libnvidia-ml.so.1";
constexpr std::uint32_t kMostGpus = 64;
constexpr std::size_t kMostXids = 32;  // Of one GPU, different ones.
constexpr int kMostEventsAtOnce = 256;

// ---- NVML's own names, as its documentation has them ----
using Device = struct NvmlDevice*;
using EventSet = struct NvmlEventSet*;
enum Answer {
  kSuccess = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kGpuIsLost = 15,
  kResetRequired = 16,
};
struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
struct FieldValue {
  unsigned int field;
  unsigned int scope;
  long long timestamp;
  long long latency;
  int type;
  int answer;
  union {
    double as_double;
    unsigned int as_uint;
    unsigned long long as_ull;
  } value;
};
constexpr unsigned long long kXidEvent = 8;
constexpr int kUncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kVolatile = 0;     // NVML_VOLATILE_ECC: since the driver was loaded.
constexpr unsigned int kRecoveryField = 230;
constexpr unsigned int kUuidBytes = 96;

bool IsAbsent(int answer) {
  return answer == kNotSupported || answer == kNoPermission;
}

}  // namespace

// The library, and the driver while it is held. Never unloaded: a call may be under way for ever.
class GpuSource::Library {
 public:
  Library() {
    void* const library = ::dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      missing = why == nullptr ? kLibraryName : why;
      return;
    }
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    };
    find("nvmlInit_v2", init);
    find("nvmlShutdown", shutdown);
    find("nvmlErrorString", words);
    find("nvmlDeviceGetCount_v2", count);
    find("nvmlDeviceGetHandleByIndex_v2", handle);
    find("nvmlDeviceGetUUID", uuid);
    find("nvmlDeviceGetTotalEccErrors", ecc);
    find("nvmlDeviceGetRemappedRows", remapped);
    find("nvmlDeviceGetCurrentClocksThrottleReasons", throttle);
    find("nvmlDeviceGetFieldValues", fields);
    find("nvmlEventSetCreate", make_set);
    find("nvmlEventSetFree", free_set);
    find("nvmlDeviceRegisterEvents", register_events);
    find("nvmlEventSetWait_v2", wait);
    if (init == nullptr || shutdown == nullptr || count == nullptr || handle == nullptr) {
      missing = std::string(kLibraryName) + " lacks nvmlInit_v2 or a related function";
    }
  }

  std::string WordsOf(int answer) const {
    const char* const text = words == nullptr ? nullptr : words(answer);
    return text == nullptr ? "NVML error " + std::to_string(answer) : text;
  }

  bool HasEvents() const {
    return make_set != nullptr && free_set != nullptr && register_events != nullptr &&
           wait != nullptr;
  }

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*words)(int) = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*handle)(unsigned int, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned int) = nullptr;
  int (*ecc)(Device, int, int, unsigned long long*) = nullptr;
  int (*remapped)(Device, unsigned int*, unsigned int*, unsigned int*, unsigned int*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
  int (*fields)(Device, int, FieldValue*) = nullptr;
  int (*make_set)(EventSet*) = nullptr;
  int (*free_set)(EventSet) = nullptr;
  int (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  int (*wait)(EventSet, EventData*, unsigned int) = nullptr;

  std::string missing;  // Why it cannot be used; empty: it can.
  bool held = false;
  EventSet set = nullptr;
  std::map<std::uint32_t, Device> watched;  // GPUs whose events come.
};

GpuSource::GpuSource(MachineRoots roots, std::optional<std::string> visible)
    : roots_(std::move(roots)), visible_(std::move(visible)) {}

GpuSource::~GpuSource() = default;  // The driver's handles go with the process: releasing them may
                                    // hang.

bool GpuSource::Present(const MachineRoots& roots) {
  std::error_code error;
  return std::filesystem::exists(roots.dev / "nvidiactl", error) ||
         std::filesystem::exists(roots.proc / "driver" / "nvidia" / "version", error);
}

GpuReadings GpuSource::Read() {
  GpuReadings readings;
  readings.present = Present(roots_);
  if (!readings.present) {
    return readings;
  }
  if (!library_) {
    library_ = std::make_unique<Library>();
  }
  if (!library_->missing.empty()) {
    readings.error = library_->missing;
    return readings;
  }
  if (!library_->held) {
    if (const int answer = library_->init(); answer != kSuccess) {
      readings.error = "cannot query the driver: " + library_->WordsOf(answer);
      return readings;
    }
    library_->held = true;
  }
  unsigned int count = 0;
  if (const int answer = library_->count(&count); answer != kSuccess) {
    readings.error = "the driver cannot count the GPUs: " + library_->WordsOf(answer);
    LetGo();
    return readings;
  }
  bool reset_due = false;
  for (std::uint32_t index = 0; index < std::min(count, kMostGpus); ++index) {
    readings.gpus.push_back(ReadOne(index));
  }
  TakeXids();
  AddGone(readings.gpus);
  for (GpuReading& gpu : readings.gpus) {
    if (const auto known = known_.find(gpu.index);
        known != known_.end() && known->second.uuid == gpu.uuid) {
      gpu.xids = known->second.xids;
    }
    const bool due = gpu.recovery ? *gpu.recovery != GpuRecovery::kNone : !gpu.xids.empty();
    reset_due |= gpu.lost || gpu.needs_reset || due || (gpu.rows && gpu.rows->pending);
  }
  if (reset_due) {
    LetGo();
  }
  return readings;
}

// A value that this GPU does not have, or this user may not read, stays unset.
GpuReading GpuSource::ReadOne(std::uint32_t index) {
  Library& nvml = *library_;
  GpuReading& known = known_[index];
  GpuReading gpu;
  gpu.index = index;
  const auto ok = [&](int answer) {
    gpu.lost |= answer == kGpuIsLost;
    gpu.needs_reset |= answer == kResetRequired;
    return answer == kSuccess;
  };
  Device device = nullptr;
  const int found = nvml.handle(index, &device);
  if (!ok(found)) {
    gpu.error = nvml.WordsOf(found);
    gpu.uuid = known.uuid;
    gpu.mine = found != kNoPermission && IsVisibleGpu(visible_, index, gpu.uuid);
    return gpu;
  }
  char uuid[kUuidBytes] = "";
  if (nvml.uuid != nullptr && ok(nvml.uuid(device, uuid, sizeof uuid))) {
    uuid[sizeof uuid - 1] = '\0';
    if (known.uuid != uuid) {
      known = {};  // Another one has this number now.
      known.uuid = uuid;
    }
  }
  gpu.uuid = known.uuid;
  gpu.mine = IsVisibleGpu(visible_, index, gpu.uuid);
  unsigned long long number = 0;
  if (nvml.ecc != nullptr && ok(nvml.ecc(device, kUncorrected, kVolatile, &number))) {
    gpu.uncorrected = number;
  }
  unsigned int rows[4] = {};
  if (nvml.remapped != nullptr &&
      ok(nvml.remapped(device, &rows[0], &rows[1], &rows[2], &rows[3]))) {
    gpu.rows = RemappedRows{rows[0], rows[1], rows[2] != 0, rows[3] != 0};
  }
  if (nvml.throttle != nullptr && ok(nvml.throttle(device, &number))) {
    gpu.throttled = number;
  }
  FieldValue field{};
  field.field = kRecoveryField;
  if (nvml.fields != nullptr && ok(nvml.fields(device, 1, &field)) && field.answer == kSuccess &&
      field.value.as_uint <= static_cast<std::uint32_t>(GpuRecovery::kDrainAndReset)) {
    gpu.recovery = static_cast<GpuRecovery>(field.value.as_uint);
  }
  if (nvml.HasEvents() && !nvml.watched.contains(index)) {
    const bool set = nvml.set != nullptr || nvml.make_set(&nvml.set) == kSuccess;
    const int answer = set ? nvml.register_events(device, kXidEvent, nvml.set) : kNotSupported;
    if (answer == kSuccess || IsAbsent(answer)) {
      nvml.watched[index] = device;
    }
  }
  return gpu;
}

// One that has fallen off the bus may not even be counted any more, and those after it move up.
void GpuSource::AddGone(std::vector<GpuReading>& gpus) {
  const std::size_t counted = gpus.size();
  for (const auto& seen : seen_) {
    const GpuReading& gpu = seen.second;
    const bool there =
        std::ranges::any_of(gpus.begin(), gpus.begin() + static_cast<long>(counted),
                            [&](const GpuReading& one) { return one.uuid == gpu.uuid; });
    if (!there && gpus.size() < kMostGpus) {
      gpus.push_back({.index = gpu.index,
                      .uuid = gpu.uuid,
                      .mine = gpu.mine,
                      .lost = true,
                      .error = "the driver no longer lists it"});
    }
  }
  for (std::size_t i = 0; i < counted; ++i) {
    if (!gpus[i].uuid.empty() && seen_.size() < kMostGpus) {
      seen_[gpus[i].uuid] = gpus[i];
    }
  }
}

// Those that came since the last time, without waiting for more.
void GpuSource::TakeXids() {
  Library& nvml = *library_;
  EventData event{};
  for (int i = 0; i < kMostEventsAtOnce && nvml.set != nullptr; ++i) {
    if (nvml.wait(nvml.set, &event, 0) != kSuccess) {
      return;
    }
    for (const auto& [index, device] : nvml.watched) {
      auto& xids = known_[index].xids;
      if (event.type == kXidEvent && device == event.device &&
          (xids.contains(event.data) || xids.size() < kMostXids)) {
        ++xids[event.data];
      }
    }
  }
}

void GpuSource::LetGo() {
  if (library_ && library_->held) {
    if (library_->set != nullptr) {
      library_->free_set(library_->set);
    }
    library_->set = nullptr;
    library_->watched.clear();
    library_->held = false;
    library_->shutdown();
  }
}

bool IsVisibleGpu(const std::optional<std::string>& list, std::uint32_t index,
                  const std::string& uuid) {
  if (!list) {
    return true;
  }
  for (const std::string& part : Split(*list, ',')) {
    const std::string_view entry = Trimmed(part);
    const auto number = ParseNumber<std::uint32_t>(entry);
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!number && !is_uuid) {
      return false;  // As for CUDA it hides the rest (VisibleGpus).
    }
    if (number ? *number == index : entry.starts_with("GPU-") || entry.starts_with("MIG-GPU-")) {
      if (number || uuid.empty()) {
        return true;
      }
      const std::string_view name =
          entry.starts_with("MIG-") ? entry.substr(4, uuid.size()) : entry;
      if (uuid.starts_with(name)) {  // As CUDA takes shortened ones.
        return true;
      }
    }
  }
  return false;
}

}  // namespace ddprun
