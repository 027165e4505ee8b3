// The contract of a data set and a model: the shape of a sample and of its target.
//
// Values only. Labels mean classification: cross entropy over logits, accuracy counted. Float
// targets mean regression: the mean squared error over all numbers of a target, as nn.MSELoss has
// it. Everything a model sees is float32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "common/format.h"

namespace ddprun {

using Shape = std::vector<std::int64_t>;

inline constexpr std::size_t kMaxInputs = 2;

struct Task {
  std::vector<Shape> inputs;  // Of one sample: one or two tensors.
  std::int64_t classes = 0;   // Labels are 0 to classes - 1. 0: float targets.
  Shape target;               // Of one sample's float targets.

  bool classifies() const { return classes > 0; }
  bool operator==(const Task&) const = default;
};

inline std::int64_t NumbersIn(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// "3x32x32"
inline std::string ToText(const Shape& shape) {
  return Joined(shape, "x", [](std::int64_t size) { return std::to_string(size); });
}

// Where a batch's numbers go: samples one after the other, each contiguous and row-major. Null
// where the task has no such tensor.
struct BatchRoom {
  std::array<float*, kMaxInputs> inputs{};
  float* targets = nullptr;
  std::int64_t* labels = nullptr;
};

}  // namespace ddprun
