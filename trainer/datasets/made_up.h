// What data sets that are made up share. Values and one function.
#pragma once

#include <cstdint>

#include "trainer/arguments.h"
#include "trainer/random.h"

namespace ddprun {

inline constexpr double kMostMadeUp = 1 << 30;  // Samples that are never in memory.
inline constexpr double kMostSeed = 1 << 30;

// What a number is drawn for: parts of one data set never share numbers.
inline std::uint64_t MadeUpKey(const Arguments& arguments, std::uint64_t part) {
  return Mix(Mix(static_cast<std::uint64_t>(arguments.Whole("seed"))) ^ part);
}

}  // namespace ddprun
