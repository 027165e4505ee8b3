#include "trainer/profiler/memory.h"

#include <charconv>

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
  if (at == std::string::npos) {
    return 0;
  }
  const std::size_t digits = status.find_first_of("0123456789", at);
  std::uint64_t kilobytes = 0;
  if (digits != std::string::npos) {
    std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
  }
  return kilobytes * 1024;
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
