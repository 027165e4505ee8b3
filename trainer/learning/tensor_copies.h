// libtorch's tensors, wherever they lie, as a snapshot sees them, and back. Included only by files
// that see libtorch anyway.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <c10/core/Event.h>

#include "common/result.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/learning/optimizer.h"

namespace ddprun {

// "[50,784]"
std::string ShapeText(c10::IntArrayRef shape);

// Whether it has a type that a checkpoint can hold.
bool CanBeSaved(const at::Tensor& tensor);

// Tensors of wider types come first: a file of them then has each at a multiple of its size.
std::vector<TensorView> ViewsOf(const std::vector<NamedTensor>& tensors);

// Each tensor of `to` from the one of its name; what else there is in `from` is left alone.
// kInvalid: one is missing that may not be, or has another type or shape.
Result<void> CopyBack(const std::vector<Tensor>& from, const std::vector<NamedTensor>& to);

// Copies of a device's tensors in the host's memory, always in the same place.
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
