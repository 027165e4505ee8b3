// The value of one flag, and its origin.
#pragma once

#include <string>

namespace ddprun {

struct Setting {
  std::string name;  // Of the long flag, without dashes.
  std::string value;
  std::string origin;  // For people: "command line", "PET_NNODES", "run.toml:3", "default"
};

// The origin of a value that was not set.
inline constexpr const char* kDefault = "default";

}  // namespace ddprun
