// One verb's command line: its flags, from the environment too, and the words after them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/command_line/problems.h"
#include "launcher/setting.h"
#include "proto/worker_env.h"

namespace ddprun {

inline constexpr std::uint32_t kMostOfAJob = 100'000;  // Of whatever it is made of.

struct VerbLine {
  CLI::App app;
  bool help = false;
  std::vector<std::string> rest;
  std::vector<Setting> settings;  // The flags that Parse has found, with their origins.

  // `words`: of the usage, what follows the options, as " PROGRAM [ARGUMENTS]".
  VerbLine(const std::string& what, const std::string& verb, const std::string& words = "");

  std::string Help() const;

  // Flags may follow the words too, as in `drain n1 --endpoint=...`.
  Result<void> Parse(const std::vector<std::string>& args, const GetEnv& get_env);

  // Words after the first one that is not a flag are a program's own. No variable is read. The
  // flags as given. No variable counts. The flags as given.
  Result<std::vector<Setting>> ParseUpToProgram(const std::vector<std::string>& args);

 private:
  const std::string words_;
};

// Reads `text`, or leaves `value` where there is none.
void TakeNumber(const std::string& flag, const std::string& text, std::uint32_t least,
                std::uint32_t& value, Problems& problems);

}  // namespace ddprun
