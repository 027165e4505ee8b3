// A tensor of what is learned, and how a checkpoint has it. Included only by files that see
// libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "common/format.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // Shares its memory with the owner.
  // A forward changes it, or the program between two steps.
  bool changes_at_any_time = false;
  bool may_be_missing = false;  // A checkpoint may lack it; then it stays as it is.
};

// "[50,784]"
inline std::string ShapeText(c10::IntArrayRef shape) {
  return "[" + Joined(shape, ",", [](std::int64_t size) { return std::to_string(size); }) + "]";
}

// None: a checkpoint cannot hold it.
inline std::optional<DType> SavedType(const at::Tensor& tensor) {
  constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16,
                                       at::kLong,   at::kInt,   at::kByte, at::kBool};  // By DType.
  static_assert(std::size(kTypes) == std::size(kDTypes));
  const auto* const found = std::ranges::find(kTypes, tensor.scalar_type());
  return found == std::end(kTypes) ? std::nullopt
                                   : std::optional(static_cast<DType>(found - kTypes));
}

}  // namespace ddprun
