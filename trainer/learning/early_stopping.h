// Which validation was the best, and whether enough followed it without a gain.
//
// Pure. Lives in a training's metrics, so that it goes with the checkpoints: a resumed training
// counts on from where its checkpoint stood.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ddprun {

using Metrics = std::map<std::string, double>;

// The names in the metrics.
inline constexpr const char* kBestLoss = "best_validation_loss";
inline constexpr const char* kBestStep = "best_validation_step";
inline constexpr const char* kSinceBest = "validations_since_best";
inline constexpr const char* kStoppedEarly = "stopped_early";

// Whether `loss` (of `step`) is the best so far. One that is infinite or no number never is.
bool NoteValidation(Metrics& metrics, std::uint64_t step, double loss);

// `patience` 0: never.
bool EnoughValidations(const Metrics& metrics, std::uint64_t patience);

// Only those named above, which a resumed training continues.
Metrics ValidationMetrics(const Metrics& metrics);

}  // namespace ddprun
