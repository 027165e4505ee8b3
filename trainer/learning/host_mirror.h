// Copies of a GPU's tensors, for a snapshot. Included only by files that see libtorch anyway.
#pragma once

#include <c10/core/Event.h>

#include <map>
#include <vector>

#include "trainer/learning/named_tensor.h"

namespace ddprun {

// In the host's memory, always in the same place.
class HostMirror {
 public:
  // Behind what the current stream has been told so far, and before what it will be told.
  std::vector<NamedTensor> Copy(const std::vector<NamedTensor>& tensors);
  // Until the last ones have arrived; in any thread.
  void Wait() const;

 private:
  std::vector<NamedTensor> copies_;
  std::map<c10::DeviceIndex, c10::Event> arrived_;  // Of each GPU.
};

}  // namespace ddprun
