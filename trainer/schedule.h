// The learning rate as a pure function of the step: a resumed run needs no state of it.
//
// A linear warm-up, then constant; or a factor every so many steps (torch's StepLR); or half a
// cosine down to zero at the last step (CosineAnnealingLR). Steps count from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

enum class ScheduleKind { kConstant, kStep, kCosine };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::uint64_t warmup_steps = 0;  // Step s < this: (s + 1) / warmup_steps of the rate.
  std::uint64_t decay_every = 1;   // kStep: from the end of the warm-up on.
  double decay_factor = 0.1;
  std::uint64_t total_steps = 1;  // kCosine: of the whole training, warm-up included.
};

std::optional<ScheduleKind> ParseSchedule(std::string_view name);

// The factor of the learning rate at step `step`, 0 to 1.
double LearningRateFactor(const Schedule& schedule, std::uint64_t step);

}  // namespace ddprun
