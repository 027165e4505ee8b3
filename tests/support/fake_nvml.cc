// Loaded in the place of NVIDIA's library, with its own calling interface. The GPUs are described
// in the file that FAKE_NVML names, which each call reads anew:
//
//   init CODE                         what nvmlInit_v2 answers
//   count N                           GPUs; each well until a line says else
//   gpu I answer CODE                 of every call on it; handle CODE: of looking it up alone
//   gpu I uuid|ecc|throttle|recovery VALUE;  gpu I rows CORRECTABLE UNCORRECTABLE PENDING FAILED
//   xid I NUMBER                      an event, reported once
//   hang FIFO                         the call stands still until a process writes to it
//
// FAKE_NVML.log has a line for each init and shutdown.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

enum { kSuccess = 0, kNotSupported = 3, kInvalid = 2, kTimeout = 10, kUnknown = 999 };

struct Gpu {
  int answer = kSuccess;
  int handle = kSuccess;
  std::string uuid;
  unsigned long long ecc = 0;
  unsigned long long throttle = 0;
  int recovery = -1;
  unsigned rows[4] = {};
};

struct State {
  int init = kSuccess;
  std::vector<Gpu> gpus;
  std::vector<std::pair<unsigned, unsigned long long>> xids;
};

std::string Path() {
  const char* const path = std::getenv("FAKE_NVML");
  return path == nullptr ? "" : path;
}

void Note(const char* what) {
  std::ofstream(Path() + ".log", std::ios::app) << what << "\n";
}

void ReadGpu(std::istream& line, State& state) {
  unsigned index = 0;
  std::string key;
  line >> index >> key;
  if (index >= state.gpus.size()) {
    return;
  }
  Gpu& gpu = state.gpus[index];
  if (key == "answer") {
    line >> gpu.answer;
  } else if (key == "handle") {
    line >> gpu.handle;
  } else if (key == "uuid") {
    line >> gpu.uuid;
  } else if (key == "ecc") {
    line >> gpu.ecc;
  } else if (key == "throttle") {
    line >> gpu.throttle;
  } else if (key == "recovery") {
    line >> gpu.recovery;
  } else if (key == "rows") {
    line >> gpu.rows[0] >> gpu.rows[1] >> gpu.rows[2] >> gpu.rows[3];
  }
}

State Now() {
  State state;
  std::ifstream file(Path());
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string key;
    line >> key;
    if (key == "init") {
      line >> state.init;
    } else if (key == "count") {
      std::size_t count = 0;
      line >> count;
      state.gpus.resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        state.gpus[i].uuid = "GPU-" + std::to_string(i) + "000";
      }
    } else if (key == "gpu") {
      ReadGpu(line, state);
    } else if (key == "xid") {
      std::pair<unsigned, unsigned long long> xid;
      line >> xid.first >> xid.second;
      state.xids.push_back(xid);
    } else if (key == "hang") {
      std::string fifo;
      line >> fifo;
      const int fd = ::open(fifo.c_str(), O_RDONLY | O_CLOEXEC);
      char byte = 0;
      if (fd >= 0 && ::read(fd, &byte, 1) >= 0) {
        ::close(fd);
      }
    }
  }
  return state;
}

// Handles are the index and one.
unsigned IndexOf(void* device) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}

template <class Tell>
int OfGpu(void* device, const Tell& tell) {
  const State state = Now();
  const unsigned index = IndexOf(device);
  if (index >= state.gpus.size()) {
    return kInvalid;
  }
  const Gpu& gpu = state.gpus[index];
  return gpu.answer != kSuccess ? gpu.answer : tell(gpu);
}

std::size_t told_xids = 0;
std::vector<unsigned> registered;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  Note("init");
  return Now().init;
}
int nvmlShutdown() {
  Note("shutdown");
  registered.clear();
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  return code == 15 ? "GPU is lost" : code == 18 ? "Driver/library version mismatch" : "Error";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Now().gpus.size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  const State state = Now();
  *device = reinterpret_cast<void*>(std::uintptr_t{index} + 1);
  return index < state.gpus.size() ? state.gpus[index].handle : kInvalid;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  return OfGpu(device, [&](const Gpu& gpu) {
    std::snprintf(uuid, length, "%s", gpu.uuid.c_str());
    return kSuccess;
  });
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  return OfGpu(device, [&](const Gpu& gpu) {
    *count = gpu.ecc;
    return type == 1 && counter == 0 ? kSuccess : kInvalid;
  });
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* correctable, unsigned* uncorrectable,
                              unsigned* pending, unsigned* failed) {
  return OfGpu(device, [&](const Gpu& gpu) {
    *correctable = gpu.rows[0];
    *uncorrectable = gpu.rows[1];
    *pending = gpu.rows[2];
    *failed = gpu.rows[3];
    return kSuccess;
  });
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return OfGpu(device, [&](const Gpu& gpu) {
    *reasons = gpu.throttle;
    return kSuccess;
  });
}

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;
  int answer;
  unsigned long long value;
};
static_assert(sizeof(FieldValue) == 40);

int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  return OfGpu(device, [&](const Gpu& gpu) {
    for (int i = 0; i < count; ++i) {
      const bool known = values[i].field == 230 && gpu.recovery >= 0;
      values[i].answer = known ? kSuccess : kNotSupported;
      values[i].value = known ? static_cast<unsigned>(gpu.recovery) : 0;
    }
    return kSuccess;
  });
}

int nvmlEventSetCreate(void** set) {
  *set = &registered;
  return kSuccess;
}
int nvmlEventSetFree(void* set) {
  return set == &registered ? kSuccess : kInvalid;
}
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  registered.push_back(IndexOf(device));
  return types == 8 && set == &registered ? kSuccess : kInvalid;
}

struct EventData {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(EventData) == 32);

int nvmlEventSetWait_v2(void* set, EventData* data, unsigned) {
  const State state = Now();
  for (; set == &registered && told_xids < state.xids.size();) {
    const auto [index, xid] = state.xids[told_xids++];
    for (const unsigned one : registered) {
      if (one == index) {
        *data = {reinterpret_cast<void*>(std::uintptr_t{index} + 1), 8, xid, ~0U, ~0U};
        return kSuccess;
      }
    }
  }
  return kTimeout;
}

}  // extern "C"
