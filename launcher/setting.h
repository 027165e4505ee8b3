// The value of one flag, and its origin.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Setting {
  std::string name;  // Of the long flag, without dashes.
  std::string value;
  std::string origin;  // For people: "command line", "PET_NNODES", "run.toml:3", "default"
};

// The origin of a value that was not set.
inline constexpr const char* kDefault = "default";

inline std::optional<std::string> ValueOf(const std::vector<Setting>& settings,
                                          const std::string& name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == settings.end() ? std::nullopt : std::optional(found->value);
}

}  // namespace ddprun
