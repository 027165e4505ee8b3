// Random-looking numbers as pure functions of what they are drawn for: no generator, no state.
//
// The finaliser of SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014). To draw for (a, b): Mix(Mix(a) ^ b), chained, so that (1, 2) and (2, 1)
// differ.
#pragma once

#include <cstdint>

namespace ddprun {

inline std::uint64_t Mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// In [0, 1), in steps of 2^-24: every value is a float.
inline float UniformFloat(std::uint64_t draw) {
  return static_cast<float>(draw >> 40) * 0x1p-24f;
}

}  // namespace ddprun
