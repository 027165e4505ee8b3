// How far a run is, in the words in which Kubeflow's Trainer takes it: status.trainerStatus of a
// TrainJob.
//
// Pure. The percentage is what the program's own number of steps (STEPS) makes it, never guessed
// from bars that begin anew with each epoch, and 100 once the run has succeeded, not before.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/status.h"

namespace ddprun {

struct TrainJobStatus {
  std::optional<std::uint32_t> percentage;
  std::optional<std::uint32_t> remaining_seconds;
  std::vector<std::pair<std::string, std::string>> metrics;
  bool operator==(const TrainJobStatus&) const = default;
};

// How far the workers are by their own word; 0: none speaks now.
std::uint64_t StepOf(const RunStatus& run);

// `step`: what StepOf last had. nullopt: nobody has told how many steps there are, and `always`
// does not hold.
std::optional<TrainJobStatus> TrainJobStatusOf(const RunStatus& run, std::uint64_t step,
                                               bool always);

// {"trainerStatus": {...}}, as of `now`.
std::string InJson(const TrainJobStatus& status, std::chrono::system_clock::time_point now);

}  // namespace ddprun
