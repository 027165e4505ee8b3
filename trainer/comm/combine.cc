#include "trainer/comm/combine.h"

#include <bit>
#include <concepts>
#include <cstring>

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

// What arithmetic is done in.
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

template <class T, class Operation>
void Apply(void* into, const void* other, std::size_t count, Operation operation) {
  auto* const mine = static_cast<T*>(into);
  const auto* const theirs = static_cast<const T*>(other);
  for (std::size_t i = 0; i < count; ++i) {
    mine[i] = T(operation(static_cast<Wide<T>>(mine[i]), static_cast<Wide<T>>(theirs[i])));
  }
}

template <class T>
void CombineAs(ReduceOp op, void* into, const void* other, std::size_t count) {
  using W = Wide<T>;
  const auto apply = [&](auto operation) { Apply<T>(into, other, count, operation); };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return apply([](W a, W b) { return a + b; });
    case ReduceOp::kProduct:
      return apply([](W a, W b) { return a * b; });
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
void AverageAs(void* data, std::size_t count, std::size_t ranks) {
  auto* const values = static_cast<T*>(data);
  const auto divisor = static_cast<Wide<T>>(ranks);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = T(static_cast<Wide<T>>(values[i]) / divisor);
  }
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

std::string_view NameOf(ReduceOp op) {
  constexpr std::string_view kNames[] = {"SUM",  "PRODUCT", "MIN",  "MAX",
                                         "BAND", "BOR",     "BXOR", "AVG"};
  return kNames[static_cast<std::size_t>(op)];
}

bool Defined(const Reduction& reduction) {
  const bool bitwise = reduction.op == ReduceOp::kBand || reduction.op == ReduceOp::kBor ||
                       reduction.op == ReduceOp::kBxor;
  bool integral = false;
  As(reduction.element, [&](auto zero) { integral = std::integral<decltype(zero)>; });
  return integral || !bitwise;
}

void Combine(const Reduction& reduction, void* into, const void* other, std::size_t count) {
  As(reduction.element,
     [&](auto zero) { CombineAs<decltype(zero)>(reduction.op, into, other, count); });
}

void Average(const Reduction& reduction, void* data, std::size_t count, std::size_t ranks) {
  if (reduction.op == ReduceOp::kAvg) {
    As(reduction.element, [&](auto zero) { AverageAs<decltype(zero)>(data, count, ranks); });
  }
}

}  // namespace ddprun
