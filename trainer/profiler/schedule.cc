#include "trainer/profiler/schedule.h"

#include <array>
#include <cstddef>
#include <vector>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kMostSteps = 1'000'000'000;

}  // namespace

std::optional<ProfileSchedule> ParseProfileSchedule(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  if (parts.size() < 3 || parts.size() > 4 || text.ends_with(',')) {
    return std::nullopt;
  }
  std::array<std::uint64_t, 4> numbers{0, 0, 0, 1};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = ParseNumber<std::uint64_t>(parts[i]);
    if (!number || *number > kMostSteps) {
      return std::nullopt;
    }
    numbers[i] = *number;
  }
  if (numbers[2] == 0 || numbers[3] == 0) {
    return std::nullopt;
  }
  return ProfileSchedule{numbers[0], numbers[1], numbers[2], numbers[3]};
}

ProfilePhase PhaseAt(const ProfileSchedule& schedule, std::uint64_t step) {
  const std::uint64_t cycle = schedule.wait + schedule.warmup + schedule.active;
  if (step / cycle >= schedule.repeat || step % cycle < schedule.wait) {
    return ProfilePhase::kOff;
  }
  return step % cycle < schedule.wait + schedule.warmup ? ProfilePhase::kWarmup
                                                        : ProfilePhase::kActive;
}

}  // namespace ddprun
