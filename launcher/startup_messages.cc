#include "launcher/startup_messages.h"

#include <stdlib.h>

#include "common/log.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/host_places.h"
#include "launcher/plan.h"
#include "launcher/scrub.h"
#include "launcher/verbs/detect_context.h"

namespace ddprun {

std::vector<std::string> StartupWarnings(const LaunchConfig& config, const Preparation& prepared) {
  std::vector<std::string> warnings = config.warnings;
  for (const std::string& name : config.signals.unknown) {
    warnings.push_back(
        "--signals-to-handle: ignoring '" + name +
        "': only SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 can be passed on");
  }
  if (!prepared.no_preload.empty() && !prepared.preload_auto) {
    warnings.push_back(prepared.no_preload);
  }
  if (std::string warning = FindTemporaryPlace().remark; !warning.empty()) {
    warnings.push_back(std::move(warning));
  }
  warnings.insert(warnings.end(), prepared.numa.warnings.begin(), prepared.numa.warnings.end());
  const std::vector<std::string> of_context = WarningsOf(config, prepared.cpus);
  warnings.insert(warnings.end(), of_context.begin(), of_context.end());
  return warnings;
}

void SayStartupWarnings(const LaunchConfig& config, const Preparation& prepared) {
  for (const std::string& warning : StartupWarnings(config, prepared)) {
    Announce(LogLevel::kWarning, InOneLine(warning));
  }
}

void StartLauncherLog(const LaunchConfig& config) {
  QueueLog();
  StartLog("ddprun", config.LeastLevel());
  for (const std::string& warning : config.warnings) {
    Log(LogLevel::kWarning, warning);
  }
}

void SayOrigins(const LaunchConfig& config) {
  for (const auto& [name, value, origin] : config.settings) {
    if (origin != "default" && origin != "command line") {
      Announce(LogLevel::kInfo,
               "--" + name + "=" + (IsSecret(name) ? "***" : value) + " is " + origin + "'s");
    }
  }
}

void SayWorkerCount(const LaunchConfig& config, const Preparation& prepared) {
  if (ValueOf(config.settings, "nproc-per-node") == "auto" && !config.quiet) {
    Announce(LogLevel::kInfo, "workers: " + WorkerCount(config, prepared));
  }
}

void ApplyToEnvironment(const LaunchConfig& config, const Preparation& prepared) {
  for (const std::string& name : prepared.removed) {
    ::unsetenv(name.c_str());
  }
  for (const std::string& name : config.own_variables) {
    ::unsetenv(name.c_str());
  }
  ::unsetenv("DDPRUN_TOKEN");  // Workers need it for nothing.
  if (prepared.omp_threads) {
    ::setenv("OMP_NUM_THREADS", std::to_string(*prepared.omp_threads).c_str(), 1);
    if (!config.context.task_slot &&
        !config.quiet) {  // Else every process of the node would say so.
      Announce(LogLevel::kInfo, "OMP_NUM_THREADS=" + std::to_string(*prepared.omp_threads) +
                                    " for each worker: " + std::to_string(prepared.cpus) +
                                    " CPUs for " + std::to_string(config.workers) + " workers");
    }
  }
  if (!config.interface.empty()) {
    ::setenv("GLOO_SOCKET_IFNAME", config.interface.c_str(), 0);
    ::setenv("NCCL_SOCKET_IFNAME", config.interface.c_str(), 0);
  }
  ::setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", config.signals.text.c_str(), 1);
}

}  // namespace ddprun
