// A struct's fields as a table, so that what is done with every one of them is written once.
//
// A table is a constexpr tuple of rows, each with a member pointer. IsWhole says at compile time
// that no field was left out.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

namespace ddprun {

template <class... Row, class Visit>
constexpr void ForEach(const std::tuple<Row...>& table, Visit&& visit) {
  std::apply([&](const Row&... row) { (visit(row), ...); }, table);
}

struct AnyValue {
  template <class T>
  operator T() const;  // Never defined: only counted with.
};

// Of an aggregate without bases.
template <class T, class... Known>
constexpr std::size_t CountFields() {
  if constexpr (requires { T{Known{}..., AnyValue{}}; }) {
    return CountFields<T, Known..., AnyValue>();
  } else {
    return sizeof...(Known);
  }
}

// `apart`: fields that have no row.
template <class T, class... Row>
constexpr bool IsWhole(const std::tuple<Row...>&, std::size_t apart = 0) {
  return CountFields<T>() == sizeof...(Row) + apart;
}

}  // namespace ddprun
