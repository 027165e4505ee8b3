#include "trainer/learning/host_mirror.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddprun {

std::vector<NamedTensor> HostMirror::Copy(const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::map<c10::DeviceIndex, at::Device> gpus;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& from = tensors[i].tensor;
    if (from.device().is_cuda()) {
      gpus.emplace(from.device().index(), from.device());
    }
    if (i == copies_.size()) {
      copies_.push_back(
          {tensors[i].name, at::empty(from.sizes(), at::TensorOptions()
                                                        .dtype(from.scalar_type())
                                                        .pinned_memory(from.device().is_cuda()))});
    }
    copies_[i].tensor.copy_(from, /*non_blocking=*/true);
  }
  for (const auto& [index, gpu] : gpus) {
    c10::Event& event = arrived_.try_emplace(index, gpu.type()).first->second;
    event.record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
  }
  return copies_;
}

void HostMirror::Wait() const {
  for (const auto& [index, event] : arrived_) {
    event.synchronize();
  }
}

}  // namespace ddprun
