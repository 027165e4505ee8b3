// For tests: an environment that has these variables and no others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "proto/worker_env.h"

namespace ddprun {

inline GetEnv Environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace ddprun
