// What both ends of a connection must agree on, or one of them hangs up on the other.
#pragma once

namespace ddprun {

inline constexpr int kMaxMessageBytes = 1 << 20;
inline constexpr int kKeepaliveMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;
inline constexpr int kLeastPingIntervalMs = 2'000;
static_assert(kLeastPingIntervalMs < kKeepaliveMs);

}  // namespace ddprun
