#include "trainer/group/combine.h"

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ddprun {
namespace {

struct Half {
  _Float16 value;
  explicit Half(float number) : value(static_cast<_Float16>(number)) {}
  explicit operator float() const { return static_cast<float>(value); }
};

// The upper half of a float's bits.
struct BFloat {
  std::uint16_t bits;
  explicit BFloat(float number) {
    auto wide = std::bit_cast<std::uint32_t>(number);
    if (number != number) {
      bits = 0x7fc0;
    } else {
      wide += 0x7fff + ((wide >> 16) & 1);  // To nearest, ties to even.
      bits = static_cast<std::uint16_t>(wide >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

template <class T>
concept Narrow = std::same_as<T, Half> || std::same_as<T, BFloat>;

// The type in which arithmetic is done.
template <class T>
using Wide = std::conditional_t<Narrow<T>, float, T>;

// mine[i] = operation(mine[i], theirs[i]); the bodies of both versions.
template <class T, class Operation>
[[gnu::always_inline]] inline void EachPlain(Operation operation, std::size_t begin,
                                             std::size_t count, T* mine, const T* theirs) {
  for (std::size_t i = begin; i < count; ++i) {
    mine[i] = T(operation(static_cast<Wide<T>>(mine[i]), static_cast<Wide<T>>(theirs[i])));
  }
}

#if defined(__x86_64__)
#define DDPRUN_WIDE [[gnu::target("avx2,f16c")]]

constexpr std::size_t kLanes = 8;
using Lanes = std::array<float, kLanes>;

DDPRUN_WIDE inline Lanes Load(const Half* halves) {
  Lanes lanes;
  _mm256_storeu_ps(lanes.data(),
                   _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves))));
  return lanes;
}

DDPRUN_WIDE inline void Store(const Lanes& lanes, Half* halves) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(halves),
                   _mm256_cvtps_ph(_mm256_loadu_ps(lanes.data()), _MM_FROUND_TO_NEAREST_INT));
}

template <class T, class Operation>
DDPRUN_WIDE void EachWide(Operation operation, std::size_t count, T* mine, const T* theirs) {
  std::size_t done = 0;
  if constexpr (std::same_as<T, Half>) {  // Compilers convert these one by one.
    for (; done + kLanes <= count; done += kLanes) {
      Lanes values = Load(mine + done);
      const Lanes others = Load(theirs + done);
      for (std::size_t i = 0; i < kLanes; ++i) {
        values[i] = operation(values[i], others[i]);
      }
      Store(values, mine + done);
    }
  }
  EachPlain(operation, done, count, mine, theirs);
}
#endif

template <class T, class Operation>
void Each(Instructions with, Operation operation, std::size_t count, T* mine, const T* theirs) {
#if defined(__x86_64__)
  if (with == Instructions::kWide) {
    return EachWide(operation, count, mine, theirs);
  }
#endif
  EachPlain(operation, 0, count, mine, theirs);
}

// Calls `function` with a value of the element's type.
template <class Function>
void As(Element element, Function function) {
  switch (element) {
    case Element::kF64:
      return function(double{});
    case Element::kF32:
      return function(float{});
    case Element::kF16:
      return function(Half(0));
    case Element::kBF16:
      return function(BFloat(0));
  }
}

}  // namespace

std::size_t SizeOf(Element element) {
  std::size_t size = 0;
  As(element, [&](auto zero) { size = sizeof zero; });
  return size;
}

Instructions BestInstructions() {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return wide ? Instructions::kWide : Instructions::kPlain;
#else
  return Instructions::kPlain;
#endif
}

void Add(Element element, void* into, const void* other, std::size_t count, Instructions with) {
  As(element, [&](auto zero) {
    using T = decltype(zero);
    Each(
        with, [](Wide<T> a, Wide<T> b) { return a + b; }, count, static_cast<T*>(into),
        static_cast<const T*>(other));
  });
}

void Scale(const float* from, float factor, float* into, std::size_t count) {
  const auto scaled = [factor](float, float value) { return value * factor; };
  Each(BestInstructions(), scaled, count, into, from);
}

}  // namespace ddprun
