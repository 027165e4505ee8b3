// One seed's history: a random run, random faults, then healing, then the run must end.
//
// A run's server stands on a machine of its own, with a claim or without; or every machine may
// carry it, and workers advance the head of their checkpoints; or machines only take it over from
// one another while their run waits for nodes that never come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::sim {

enum class Mode { kStanding, kFull, kFailover, kSlow };

struct History {
  std::optional<std::string> broken;  // In words; nullopt: every law held.
  std::uint64_t hash = 0;
  std::vector<std::string> lines;  // Where words were asked for.
  std::uint64_t lost = 0;          // Memberships.
};

// A history from this seed on is that of so many less, with more that goes wrong (faults.h): so
// what came later moves none that was known.
inline constexpr std::uint64_t kMoreFaults = 1'000'000'000'000;

History Play(std::uint64_t seed, Mode mode, bool words);

}  // namespace ddprun::sim
