// libtorch's tensors as a snapshot sees them, and back. Included only by files that see libtorch
// anyway.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/optimizer.h"

namespace ddprun {

// "[50,784]"
std::string ShapeText(c10::IntArrayRef shape);

// Tensors of wider types come first: a file of them then has each at a multiple of its size.
std::vector<TensorView> ViewsOf(const std::vector<NamedTensor>& tensors);

// Each tensor of `to` from the one of its name; what else there is in `from` is left alone.
// kInvalid: one is missing, or has another type or shape.
Result<void> CopyBack(const std::vector<Tensor>& from, const std::vector<NamedTensor>& to);

}  // namespace ddprun
