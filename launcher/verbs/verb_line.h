// One verb's command line: its flags, from the environment too, and the words after them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/command_line/flag_rows.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/problems.h"
#include "launcher/setting.h"
#include "proto/worker_env.h"

namespace ddprun {

struct VerbLine {
  CLI::App app;
  FlagRows flags;  // Of `app`.
  bool help = false;
  std::vector<std::string> rest;  // The words that are no flags.
  std::vector<Setting> settings;  // The flags that Parse has found, with their origins.
  Problems problems;

  // `args` begins with the verb. `words`: the end of the usage, after the options, as " PROGRAM
  // [ARGUMENTS]".
  VerbLine(const std::string& what, const std::vector<std::string>& args, std::string words = "");

  // Flags may follow the words too, as in `drain n1 --endpoint=...`. `problems` gets all that is
  // wrong.
  void Parse(const GetEnv& get_env);
  // Words after the first one that is not a flag are a program's own. No variable is read. False: a
  // flag is not known, so neither is the program.
  bool ParseUpToProgram();
  // More words than these are a problem.
  void RefuseWords(std::size_t most);

  std::string Help() const;
  // Everything that is wrong, with the origins of the values.
  Result<void> Outcome() const;

 private:
  const std::vector<std::string> args_;
  const std::string words_;
};

}  // namespace ddprun
