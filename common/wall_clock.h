// The time of this machine's clock, which may be set at any moment.
#pragma once

#include <cstdint>

namespace ddprun {

// Since 1970.
std::int64_t UnixMicroseconds();
std::int64_t UnixMilliseconds();
double UnixSeconds();

}  // namespace ddprun
