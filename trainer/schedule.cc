#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/text.h"

namespace ddprun {

std::optional<ScheduleKind> ParseSchedule(std::string_view name) {
  return MeaningOf<ScheduleKind>(name, {{"constant", ScheduleKind::kConstant},
                                        {"step", ScheduleKind::kStep},
                                        {"cosine", ScheduleKind::kCosine}});
}

double LearningRateFactor(const Schedule& schedule, std::uint64_t step) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const std::uint64_t since = step - schedule.warmup_steps;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return 1;
    case ScheduleKind::kStep: {
      const std::uint64_t decays = since / schedule.decay_every;
      return std::pow(schedule.decay_factor, static_cast<double>(decays));
    }
    case ScheduleKind::kCosine: {
      const std::uint64_t rest =
          std::max(schedule.total_steps, schedule.warmup_steps + 1) - schedule.warmup_steps;
      const double done = std::min(1.0, static_cast<double>(since) / static_cast<double>(rest));
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
    }
  }
  return 1;
}

}  // namespace ddprun
