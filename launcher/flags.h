// Splits a command line of flags from the program that follows, and makes every spelling of a flag
// its one canonical spelling, before CLI11 reads them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/result.h"
#include "proto/worker_env.h"

namespace ddprun {

struct SplitLine {
  std::vector<std::string> flags;  // Canonical: "--nproc-per-node=2" or "--max-restarts", "3".
  std::vector<std::string> rest;   // The program and its arguments.
};

struct Setting {
  std::string name;  // Of the long flag, without dashes.
  std::string value;
  std::string origin;  // For people: "run.toml:3"
};

// An unknown or ambiguous flag is refused, with the nearest known one.
Result<SplitLine> SplitFlags(const CLI::App& app, const std::vector<std::string>& args);

// "--name=value" for every flag of `app` that `flags` lacks and DDPRUN_<NAME> or PET_<NAME> gives.
std::vector<std::string> FlagsFromEnvironment(const CLI::App& app,
                                              const std::vector<std::string>& flags,
                                              const GetEnv& get_env);

// For every setting whose option `app` was not given: "--name=value". Call it after a parse.
std::vector<std::string> FlagsFromFile(const CLI::App& app, const std::vector<Setting>& settings);

}  // namespace ddprun
