#include "trainer/learning/torch_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdlib>

namespace ddprun {

void SetThreads(int threads) {
  at::set_num_threads(threads);
}

void DemandDeterminism() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // Else cuBLAS is refused.
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

std::optional<DeviceMemory> MemoryOf(const Device& device) {
  if (device.kind == DeviceKind::kCpu) {
    return std::nullopt;
  }
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingAllocator::Stat stat =
      c10::getDeviceAllocator(at::kCUDA)
          ->getDeviceStats(static_cast<c10::DeviceIndex>(device.index))
          .allocated_bytes[all];
  return DeviceMemory{static_cast<std::uint64_t>(stat.current),
                      static_cast<std::uint64_t>(stat.peak)};
}

}  // namespace ddprun
