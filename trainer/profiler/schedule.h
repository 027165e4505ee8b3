// Which steps a profile covers: "wait,warmup,active[,repeat]", as PyTorch's profiler counts them.
//
// Pure. `wait` steps are left alone, `warmup` steps are recorded and thrown away (the first ones
// recorded are slower), `active` steps are kept; and so on, `repeat` times (1 unless said).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

struct ProfileSchedule {
  std::uint64_t wait = 1;
  std::uint64_t warmup = 1;
  std::uint64_t active = 3;
  std::uint64_t repeat = 1;
  bool operator==(const ProfileSchedule&) const = default;
};

enum class ProfilePhase { kOff, kWarmup, kActive };

// nullopt: not three or four numbers, or none of them active.
std::optional<ProfileSchedule> ParseProfileSchedule(const std::string& text);

// `step` counts from 0 at the start of this process.
ProfilePhase PhaseAt(const ProfileSchedule& schedule, std::uint64_t step);

}  // namespace ddprun
