// What both ends of a connection must agree on, or one of them hangs up on the other; and what
// each sets before its first use of the library.
#pragma once

namespace ddprun {

inline constexpr int kMaxMessageBytes = 1 << 20;
// Only tidies up connections whose other end is gone: leases and deadlines notice that sooner.
// Every 10 s the pings of 10,000 nodes would cost the server more than their calls.
inline constexpr int kKeepaliveMs = 60'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;
inline constexpr int kLeastPingIntervalMs = 2'000;
static_assert(kLeastPingIntervalMs < kKeepaliveMs);

// The library writes no lines of its own on our stderr, unless GRPC_VERBOSITY asks for them: what
// matters comes back as an Error. Done once per process, however often it is called.
void PrepareGrpc();

}  // namespace ddprun
