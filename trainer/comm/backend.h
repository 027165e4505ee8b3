// What carries the ranks' collectives, as --backend names it.
#pragma once

#include <optional>
#include <string_view>

namespace ddprun {

enum class BackendChoice {
  kAuto,  // Shared memory where all ranks are workers of one node and prove that they share it.
  kGloo,
  kShm,  // Shared memory, or an error.
};

inline std::optional<BackendChoice> ParseBackend(std::string_view text) {
  if (text == "auto") {
    return BackendChoice::kAuto;
  }
  if (text == "gloo") {
    return BackendChoice::kGloo;
  }
  if (text == "shm") {
    return BackendChoice::kShm;
  }
  return std::nullopt;
}

}  // namespace ddprun
