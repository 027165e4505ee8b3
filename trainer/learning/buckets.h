// Which parameters' gradients are reduced together, and in what order.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun {

// Indexes of parameters; every one exactly once.
using Buckets = std::vector<std::vector<std::size_t>>;

}  // namespace ddprun
