#include "trainer/learning/broadcast.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "trainer/group/torch_group.h"

namespace ddprun {

void Broadcast(ProcessGroup& group, const std::vector<at::Tensor>& tensors, std::uint32_t from) {
  constexpr std::size_t kBytesAtATime = std::size_t{250} << 20;
  const at::NoGradGuard no_grad;
  // Coalescing wants one type on one device at a time.
  std::map<std::pair<at::ScalarType, std::string>, std::vector<at::Tensor>> kinds;
  for (const at::Tensor& tensor : tensors) {
    if (group.size() > 1 || !tensor.device().is_cpu()) {  // NCCL alone with itself has no CPU part.
      kinds[{tensor.scalar_type(), tensor.device().str()}].push_back(tensor);
    }
  }
  for (const auto& [kind, same] : kinds) {
    c10d::broadcast_coalesced(group.torch()->group, same, kBytesAtATime, static_cast<int>(from));
  }
}

}  // namespace ddprun
