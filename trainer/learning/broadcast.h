// One rank's tensors on all ranks.
//
// Included only by files that see libtorch anyway; what the transport throws passes through.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/group/process_group.h"

namespace ddprun {

// In place. Alone it does nothing.
void Broadcast(ProcessGroup& group, const std::vector<at::Tensor>& tensors, std::uint32_t from = 0);

}  // namespace ddprun
