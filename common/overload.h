// Overload{lambda, lambda, ...}: one visitor out of several lambdas, for std::visit.
#pragma once

namespace ddprun {

template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;

}  // namespace ddprun
