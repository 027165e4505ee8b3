// The most that is taken from a command line, a socket or a claim, each with its reason. Every
// reader checks against the number here, and no second one is kept.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun {

// ---- Of a run ----
inline constexpr std::uint32_t kMaxNodes = 100'000;  // Ten times what a server was measured with.
// Of one node: more than any machine has cores or devices, and ranks stay within 32 bits.
inline constexpr std::uint32_t kMaxWorkers = 4'096;
inline constexpr std::uint32_t kMaxWorld = kMaxNodes * kMaxWorkers;
// Numbers that are counted up from what peers claim must leave room.
inline constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 62;

// ---- Of one message ----
inline constexpr std::size_t kMaxNameBytes = 255;  // Run id, node id, host name (as Linux), role.
inline constexpr std::size_t kMaxTokenBytes = 4'096;
inline constexpr std::size_t kMaxTextBytes = 4'096;  // A text for people: a screen.
inline constexpr std::size_t kMaxPath = 4'096;       // As Linux.
inline constexpr std::size_t kMaxErrorMessage = 2'048;
inline constexpr std::size_t kMaxTraceback = 8'192;  // Its end: some 100 frames.
inline constexpr std::size_t kMaxLastLines = 4'096;  // The end of a worker's stderr: a screen.
inline constexpr std::size_t kMaxHangText = 512;
inline constexpr std::size_t kMaxUnfit = 256;  // Why a node is unfit: a line.
inline constexpr std::size_t kMaxNamedUnfit =
    kMaxNameBytes + kMaxUnfit + 3;            // The same with the node's name: "n0 (why)".
inline constexpr std::size_t kMaxFacts = 12;  // Of a machine: the bad ones come first.
inline constexpr std::size_t kMaxFactName = 32;
inline constexpr std::size_t kMaxFactValue = 96;
inline constexpr std::size_t kMaxAddresses = 16;        // Addresses of one node.
inline constexpr std::size_t kMaxAddressesBytes = 640;  // Bytes of one node's addresses, as text.
// Of all nodes of a world: half of what one message may hold (grpc_limits.h).
inline constexpr std::size_t kMaxPeersBytes = std::size_t{512} << 10;
inline constexpr std::size_t kMaxNamed = 8;           // Nodes in one line; the rest is counted.
inline constexpr std::size_t kMaxFailures = 8;        // Per report, in the order they failed in.
inline constexpr std::size_t kMaxProgressGroups = 4;  // Steps of one node's workers that are kept
                                                      // apart.
inline constexpr std::size_t kMostPhases = 8;  // Of one node's workers at one time, in words.
inline constexpr int kMaxSignal = 64;          // Linux has no higher one.

// ---- Of what is remembered ----
inline constexpr std::size_t kMostOutside = 5'120;    // Bytes, of a membership in no world.
inline constexpr std::size_t kMostMemberships = 64;   // Of one node id.
inline constexpr std::size_t kMostSpawnFailures = 8;  // Of one drain, in words.
inline constexpr std::size_t kMostEndedRuns = 256;    // Ended runs that a server remembers.
// Ended runs in a claim, which all nodes read often.
inline constexpr std::size_t kMostEndedInClaim = 16;

// ---- Of what is shown ----
inline constexpr std::size_t kMaxListedNodes = 1'000;  // Of a run, the world's first.
inline constexpr std::size_t kMostShownEvents = 64;
inline constexpr std::size_t kMostShownRanks =
    65'536;  // One by one: a MiB; of a run's first nodes.
inline constexpr std::size_t kMostTrainingPoints = 512;  // Of a run: a curve on a screen.
// ---- Of a run's events, for the next server ----
inline constexpr std::size_t kEventKeepers = 8;  // Nodes that keep them: the first of the world.
inline constexpr std::size_t kMostEventsAtOnce = 32;
inline constexpr std::size_t kMostEventBytesAtOnce = std::size_t{12} << 10;
inline constexpr std::size_t kMostStartups = 16;

}  // namespace ddprun
