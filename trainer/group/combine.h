// How the numbers of several ranks become one, element by element.
//
// Pure and free of libtorch. Half-precision elements are combined in single precision and rounded
// after each pair. An average is a sum, divided once all ranks are in it (Average). On processors
// with AVX2 and F16C the loops use them, which changes no bit of a number; any other x86-64 and any
// other architecture runs the plain ones.
#pragma once

#include <cstddef>

namespace ddprun {

enum class ReduceOp { kSum, kProduct, kMin, kMax, kBand, kBor, kBxor, kAvg };

enum class Element { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8 };

struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  Element element = Element::kF32;
};

std::size_t SizeOf(Element element);

// Bitwise operations are for integers.
bool Defined(const Reduction& reduction);

enum class Instructions { kPlain, kWide };

// kWide only where this processor has them.
Instructions BestInstructions();

// into[i] = into[i] OP other[i]. Of a defined reduction only.
void Combine(const Reduction& reduction, void* into, const void* other, std::size_t count,
             Instructions with = BestInstructions());

// The last step of kAvg, nothing for the others: data[i] /= ranks.
void Average(const Reduction& reduction, void* data, std::size_t count, std::size_t ranks,
             Instructions with = BestInstructions());

// into[i] = from[i] * factor.
void Scale(const float* from, float factor, float* into, std::size_t count);

}  // namespace ddprun
