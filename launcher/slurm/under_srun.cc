#include "launcher/slurm/under_srun.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/command_line/quoted.h"
#include "launcher/print_out.h"
#include "proto/worker_env.h"
#include "rendezvous/listener/control_token.h"

namespace ddprun {
namespace {

// The variables that the shell or step around this process leaves to an srun in it, and that would
// be wrong for this one: the tasks of each node of the *job* (Slurm 23.11 and newer; it fails on
// unequal nodes), and CPUs of another step by number. A kind of binding that a user chose, such as
// "cores", stays.
std::vector<std::string> VariablesOfAnotherStep() {
  constexpr const char* kBinding[] = {"SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST",
                                      "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_VERBOSE"};
  std::vector<std::string> found;
  if (GetProcessEnv("SLURM_TRES_PER_TASK")) {
    found.push_back("SLURM_TRES_PER_TASK");
  }
  bool by_number = false;
  for (const char* name : kBinding) {
    const std::string value = GetProcessEnv(name).value_or("");
    by_number = by_number || value.find("mask_") != std::string::npos ||
                value.find("map_") != std::string::npos;
  }
  for (const char* name : kBinding) {
    if (by_number && GetProcessEnv(name)) {
      found.push_back(name);
    }
  }
  return found;
}

}  // namespace

int StartUnderSrun(const LaunchConfig& config) {
  std::vector<std::string> words;
  for (const std::string& name : VariablesOfAnotherStep()) {
    words.insert(words.end(), {"-u", name});
  }
  if (!words.empty()) {
    words.insert(words.begin(), "env");
  }
  words.insert(words.end(), config.context.launcher.begin(), config.context.launcher.end());
  words.insert(words.end(), config.own_command.begin(), config.own_command.end());
  const std::string line = QuotedLine(words);
  if (config.dry_run) {
    return PrintOut(config.context.line + "\nwould run (unless --no-auto-srun is set):\n  " + line +
                    "\n");
  }
  if (config.no_auto_srun) {
    Announce(LogLevel::kError, config.context.line + " (--no-auto-srun). Run:\n  " + line +
                                   "\nor set --nnodes=1 for this node only [srun-forgotten]");
    return kExitUsage;
  }
  Announce(LogLevel::kWarning,
           config.context.line + ", so ddprun starts through it [srun-forgotten]:\n  " + line);
  if (config.token.empty() && config.token_file.empty() && !config.tls.any()) {
    ::setenv("DDPRUN_TOKEN", DrawToken().c_str(), 1);
  }
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  Announce(LogLevel::kError, "cannot execute srun: " + std::string(std::strerror(errno)) +
                                 " (is Slurm's client in PATH?)");
  return kExitUsage;
}

}  // namespace ddprun
