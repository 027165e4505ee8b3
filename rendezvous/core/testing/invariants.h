// The conditions on a coordinator's state that hold after every Step. Pure; used by tests and
// simulations.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/core/state.h"

namespace ddprun {

// The first broken invariant in words; nullopt when all hold.
std::optional<std::string> BrokenInvariant(const CoordinatorState& state,
                                           const CoordinatorConfig& config, Time now);

}  // namespace ddprun
