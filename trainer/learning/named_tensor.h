// A tensor of what is learned, and how a checkpoint has it. Included only by files that see
// libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

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
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kLong:
      return DType::kI64;
    case at::kInt:
      return DType::kI32;
    case at::kByte:
      return DType::kU8;
    case at::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

}  // namespace ddprun
