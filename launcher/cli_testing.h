// For tests: a command line as it would be understood, or why it is refused.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cli.h"

namespace ddprun {

inline GetEnv Environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

inline LaunchConfig Launch(const std::vector<std::string>& args,
                           std::map<std::string, std::string> env = {}) {
  const Result<CommandLine> line = ParseCommandLine(args, Environment(std::move(env)));
  if (!line) {
    ADD_FAILURE() << line.error().message;
    return {};
  }
  return std::get<LaunchConfig>(*line);
}

inline std::string Refusal(const std::vector<std::string>& args,
                           std::map<std::string, std::string> env = {}) {
  const Result<CommandLine> line = ParseCommandLine(args, Environment(std::move(env)));
  EXPECT_FALSE(line);
  EXPECT_TRUE(line || line.error().kind == ErrorKind::kInvalid);
  return line ? "" : line.error().message;
}

}  // namespace ddprun
