// Memory of this process on its GPU, as libtorch's allocator counts it. Torch-free.
#pragma once

#include <cstdint>

namespace ddprun {

struct DeviceMemory {
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
};

}  // namespace ddprun
