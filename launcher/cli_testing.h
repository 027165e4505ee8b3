// For tests: a command line as it would be understood, or why it is refused.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cli.h"
#include "proto/environment_testing.h"

namespace ddprun {

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
