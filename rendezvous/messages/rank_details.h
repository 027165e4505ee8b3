// A node seen from near: how far each of its workers is, by its own word, and how well the training
// goes. For people: nothing is decided by it.
//
// Values. At most 16 bytes for each rank on the wire, with each report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/time.h"

namespace ddprun {

// So many steps in a row tell a slow rank from one that was held up.
inline constexpr std::uint64_t kWorkSteps = 20;

enum class RankState : std::uint8_t {
  kNoWord,   // It has said nothing: it starts, or never says anything.
  kRunning,  // It has.
  kLate,     // No progress for longer than it may (--hang-timeout).
  kEnded,
};

struct RankDetail {
  RankState state = RankState::kNoWord;
  std::uint64_t step = 0;                 // 0: none was reported.
  Duration since{0};                      // Without progress.
  std::chrono::microseconds step_time{};  // Of its last steps, smoothed; 0: not known.
  std::uint32_t phase = 0;                // Of the list beside it, from 1; 0: none.
  // The least that any of its last steps (kWorkSteps) took it by itself, before it waited for other
  // ranks; 0: not known.
  std::chrono::microseconds work{};
  bool operator==(const RankDetail&) const = default;
};

// The training values of the rank that knows them, as of a step.
struct TrainingPoint {
  std::uint64_t step = 0;
  std::optional<double> loss;
  std::optional<double> samples_per_s;      // Of the whole world.
  std::optional<std::uint64_t> checkpoint;  // The step of the newest one.
  bool operator==(const TrainingPoint&) const = default;
};

struct RankDetails {
  std::vector<RankDetail> ranks;    // By local rank; empty: it runs no workers.
  std::vector<std::string> phases;  // kMostPhases at most.
  std::optional<TrainingPoint> training;
  std::uint64_t steps = 0;  // The steps that there are in all, as a worker reported; 0: none did.
  bool operator==(const RankDetails&) const = default;
};

}  // namespace ddprun
