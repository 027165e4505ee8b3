// One seed's history: a random run, random faults, then healing, then the run must end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace ddprun::sim {

struct History {
  std::optional<std::string> broken;  // In words; nullopt: every law held.
  std::uint64_t hash = 0;
  std::vector<std::string> lines;  // Where words were asked for.
  // For statistics: what the history has reached.
  std::uint64_t worlds = 0;
  std::uint64_t lost = 0;
  std::uint64_t false_hangs = 0;
  std::uint32_t restarts = 0;
  bool succeeded = false;
  std::uint64_t reigns = 0;
  std::uint64_t commits = 0;
  std::uint64_t refused = 0;  // Worlds that their checkpoints' fence kept out.
};

History Play(std::uint64_t seed, const Mutation& mutation, TranscriptLevel level);

// The same where machines carry the server, which may be lost with them, and where workers advance
// the head of their checkpoints.
History PlayFull(std::uint64_t seed, const Mutation& mutation, TranscriptLevel level);

// Only that it is taken over, with claims in a directory or by the nodes of a list.
History PlaySuccession(std::uint64_t seed, const Mutation& mutation, bool listed,
                       TranscriptLevel level);

}  // namespace ddprun::sim
