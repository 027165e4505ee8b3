#include "trainer/profiler/schedule.h"

#include <vector>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kMostSteps = 1'000'000'000;

}  // namespace

std::optional<ProfileSchedule> ParseProfileSchedule(const std::string& text) {
  std::vector<std::uint64_t> numbers;
  for (const std::string& part : Split(text, ',')) {
    const auto number = ParseNumber<std::uint64_t>(part);
    if (!number || *number > kMostSteps) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  if (numbers.size() == 3) {
    numbers.push_back(1);
  }
  if (numbers.size() != 4 || numbers[2] == 0 || numbers[3] == 0 || text.ends_with(',')) {
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
