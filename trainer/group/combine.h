// How the numbers of several ranks are added up, element by element.
//
// Pure and free of libtorch. Half-precision elements are added in single precision and rounded
// after each pair. On processors with AVX2 and F16C the loops use them, which changes no bit of a
// number; any other x86-64 and any other architecture runs the plain ones.
#pragma once

#include <cstddef>

namespace ddprun {

enum class Element { kF64, kF32, kF16, kBF16 };

std::size_t SizeOf(Element element);

enum class Instructions { kPlain, kWide };

// kWide only where this processor has them.
Instructions BestInstructions();

// into[i] += other[i].
void Add(Element element, void* into, const void* other, std::size_t count,
         Instructions with = BestInstructions());

// into[i] = from[i] * factor.
void Scale(const float* from, float factor, float* into, std::size_t count);

}  // namespace ddprun
