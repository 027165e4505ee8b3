#include "trainer/profiler/memory.h"

#include <cstdlib>

#include "common/files.h"
#include "common/format.h"

namespace ddprun {
namespace {

double MegabytesOf(std::uint64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

// A line of /proc/self/status, such as "VmRSS:     1234 kB", in bytes.
std::uint64_t StatusBytes(const std::string& status, const std::string& key) {
  const std::size_t at = status.find(key + ":");
  return at == status.npos
             ? 0
             : std::strtoull(status.c_str() + at + key.size() + 1, nullptr, 10) * 1024;
}

}  // namespace

std::uint64_t ResidentBytes() {
  const Result<std::string> status = ReadFile("/proc/self/status", 1 << 16);
  return status ? StatusBytes(*status, "VmRSS") : 0;
}

std::string MemoryEstimate(const SnapshotView& view) {
  std::uint64_t parameters = 0;
  std::uint64_t gradients = 0;
  std::uint64_t optimizer = 0;
  for (const TensorView& tensor : view.model) {
    parameters += tensor.bytes.size();
    gradients += tensor.forward_changes_it ? 0 : tensor.bytes.size();  // Buffers have none.
  }
  for (const TensorView& tensor : view.optimizer) {
    optimizer += tensor.bytes.size();
  }
  return Format("parameters %.2f MB + gradients %.2f MB + optimizer %.2f MB = %.2f MB",
                MegabytesOf(parameters), MegabytesOf(gradients), MegabytesOf(optimizer),
                MegabytesOf(parameters + gradients + optimizer));
}

std::string MemoryMeasured() {
  const Result<std::string> status = ReadFile("/proc/self/status", 1 << 16);
  if (!status) {
    return "unknown (" + status.error().message + ")";
  }
  return Format("resident %.1f MB, at most %.1f MB", MegabytesOf(StatusBytes(*status, "VmRSS")),
                MegabytesOf(StatusBytes(*status, "VmHWM")));
}

}  // namespace ddprun
