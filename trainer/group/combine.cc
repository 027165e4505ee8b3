#include "trainer/group/combine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/check.h"

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
struct WideOf {
  using Type = T;
};
template <Narrow T>
struct WideOf<T> {
  using Type = float;
};
template <class T>
using Wide = typename WideOf<T>::Type;

// Sums and products of whole numbers wrap, as libtorch's.
template <class T>
struct WrappingOf {
  using Type = T;
};
template <std::integral T>
struct WrappingOf<T> {
  using Type = std::make_unsigned_t<T>;
};
template <class T>
using Wrapping = typename WrappingOf<T>::Type;

// mine[i] = operation(mine[i]), and the like for two; the bodies of both versions.
template <class T, class Operation, class... Others>
[[gnu::always_inline]] inline void EachPlain(Operation operation, std::size_t begin,
                                             std::size_t count, T* mine, const Others*... theirs) {
  for (std::size_t i = begin; i < count; ++i) {
    mine[i] = T(operation(static_cast<Wide<T>>(mine[i]), static_cast<Wide<T>>(theirs[i])...));
  }
}

#if defined(__x86_64__)
// Without FMA, which would round a product and a sum once instead of twice.
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

template <class T, class Operation, class... Others>
DDPRUN_WIDE void EachWide(Operation operation, std::size_t count, T* mine,
                          const Others*... theirs) {
  std::size_t done = 0;
  if constexpr (std::same_as<T, Half>) {  // Compilers convert these one by one.
    for (; done + kLanes <= count; done += kLanes) {
      Lanes values = Load(mine + done);
      [&](const auto&... others) {
        for (std::size_t i = 0; i < kLanes; ++i) {
          values[i] = operation(values[i], others[i]...);
        }
      }(Load(theirs + done)...);
      Store(values, mine + done);
    }
  }
  EachPlain(operation, done, count, mine, theirs...);
}
#endif

template <class T, class Operation, class... Others>
void Each(Instructions with, Operation operation, std::size_t count, T* mine,
          const Others*... theirs) {
#if defined(__x86_64__)
  if (with == Instructions::kWide) {
    return EachWide(operation, count, mine, theirs...);
  }
#endif
  EachPlain(operation, 0, count, mine, theirs...);
}

template <class T>
void CombineAs(ReduceOp op, Instructions with, void* into, const void* other, std::size_t count) {
  using W = Wide<T>;
  const auto apply = [&](auto operation) {
    Each(with, operation, count, static_cast<T*>(into), static_cast<const T*>(other));
  };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return apply([](W a, W b) {
        return static_cast<W>(static_cast<Wrapping<W>>(a) + static_cast<Wrapping<W>>(b));
      });
    case ReduceOp::kProduct:
      return apply([](W a, W b) {
        return static_cast<W>(static_cast<Wrapping<W>>(a) * static_cast<Wrapping<W>>(b));
      });
    case ReduceOp::kMin:  // A NaN of either side stays.
      return apply([](W a, W b) { return b < a || b != b ? b : a; });
    case ReduceOp::kMax:
      return apply([](W a, W b) { return b > a || b != b ? b : a; });
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      break;
  }
  if constexpr (std::integral<T>) {
    switch (op) {
      case ReduceOp::kBand:
        return apply([](T a, T b) { return a & b; });
      case ReduceOp::kBor:
        return apply([](T a, T b) { return a | b; });
      default:
        return apply([](T a, T b) { return a ^ b; });
    }
  }
  CHECK(std::integral<T>);
}

template <class T>
void AverageAs(Instructions with, void* data, std::size_t count, std::size_t ranks) {
  const auto divisor = static_cast<Wide<T>>(ranks);
  Each(
      with, [divisor](Wide<T> value) { return value / divisor; }, count, static_cast<T*>(data));
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
    case Element::kI64:
      return function(std::int64_t{});
    case Element::kI32:
      return function(std::int32_t{});
    case Element::kI8:
      return function(std::int8_t{});
    case Element::kU8:
      return function(std::uint8_t{});
  }
}

}  // namespace

std::size_t SizeOf(Element element) {
  std::size_t size = 0;
  As(element, [&](auto zero) { size = sizeof zero; });
  return size;
}

bool Defined(const Reduction& reduction) {
  const bool bitwise = reduction.op == ReduceOp::kBand || reduction.op == ReduceOp::kBor ||
                       reduction.op == ReduceOp::kBxor;
  bool integral = false;
  As(reduction.element, [&](auto zero) { integral = std::integral<decltype(zero)>; });
  return integral || !bitwise;
}

Instructions BestInstructions() {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return wide ? Instructions::kWide : Instructions::kPlain;
#else
  return Instructions::kPlain;
#endif
}

void Combine(const Reduction& reduction, void* into, const void* other, std::size_t count,
             Instructions with) {
  As(reduction.element,
     [&](auto zero) { CombineAs<decltype(zero)>(reduction.op, with, into, other, count); });
}

void Average(const Reduction& reduction, void* data, std::size_t count, std::size_t ranks,
             Instructions with) {
  if (reduction.op == ReduceOp::kAvg) {
    As(reduction.element, [&](auto zero) { AverageAs<decltype(zero)>(with, data, count, ranks); });
  }
}

void Scale(const float* from, float factor, float* into, std::size_t count) {
  const auto scaled = [factor](float, float value) { return value * factor; };
  Each(BestInstructions(), scaled, count, into, from);
}

}  // namespace ddprun
