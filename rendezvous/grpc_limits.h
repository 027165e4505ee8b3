// Limits that both ends of a connection must agree on, or one of them hangs up on the other; and
// settings that each makes before its first use of the library.
#pragma once

namespace ddprun {

inline constexpr int kMaxMessageBytes = 1 << 20;
// gRPC's own keepalive is off between nodes and server: for 10,000 nodes its timers and pings cost
// the server more than their calls. An agent always has a call with a deadline, the coordinator has
// leases, and connections whose other end is gone are tidied up by the kernel (server.cc).
// A peer's pings are accepted this often; more often is answered with GOAWAY.
inline constexpr int kLeastPingIntervalMs = 2'000;

// The library writes no lines of its own on our stderr, unless GRPC_VERBOSITY asks for them: what
// matters comes back as an Error. Done once per process, however often it is called.
void PrepareGrpc();

}  // namespace ddprun
