#include "launcher/launch.h"

#include <utility>

#include "agent/guard.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/gpus.h"
#include "launcher/end/termination_log.h"
#include "launcher/hosts/launch_on_hosts.h"
#include "launcher/kept_preload_launch.h"
#include "launcher/node.h"
#include "launcher/plan.h"
#include "launcher/pool/launch_on_pool.h"
#include "launcher/preparation.h"
#include "launcher/print_out.h"
#include "launcher/run_directory.h"
#include "launcher/server/descriptors.h"
#include "launcher/server/release_claim.h"
#include "launcher/server/server_role.h"
#include "launcher/slurm/under_srun.h"
#include "launcher/startup_messages.h"
#include "launcher/verbs/verbs.h"

namespace ddprun {
namespace {

// If the directory was ddprun's own choice and cannot be made, the run continues without it.
void HaveRunDirectory(LaunchConfig& config) {
  if (!config.own_run_dir) {
    return;
  }
  if (const Result<void> made = MakeOwnDirectory(config.run_dir); !made) {
    config.warnings.push_back(
        "the run will not survive the loss of its rendezvous host: " + made.error().message +
        ". Set --run-dir=DIR to a directory that all nodes share, or --run-dir=none");
    config.run_dir.clear();
    config.own_run_dir = false;
  }
}

int LaunchCodeOf(const Error& error) {
  return error.kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable;
}

int RunNode(const LaunchConfig& config, const Preparation& prepared, GuardLink guard) {
  const Result<int> code = LaunchedNode(config, prepared, std::move(guard)).Run();
  if (!code) {
    StartLog("ddprun", LogLevel::kInfo);
    const std::string why = WithOrigins(InOneLine(code.error().message), config.settings);
    Log(LogLevel::kError, why);
    const auto write = TerminationLogWriter(why + "\n", GetProcessEnv);
    if (write && !FinishesWithin(kTerminationLogLimit, write)) {
      SayTerminationLogHangs();
    }
    return LaunchCodeOf(code.error());
  }
  return *code;
}

}  // namespace

int Launch(LaunchConfig config) {
  SetLogFormat(config.log_format);
  if (!config.hosts.empty()) {
    return LaunchOnHosts(config);
  }
  if (config.pool) {
    return LaunchOnPool(std::move(config));
  }
  if (!config.context.launcher.empty()) {
    return StartUnderSrun(config);
  }
  if (const std::optional<int> code = LaunchFromKept(config)) {
    return *code;
  }
  if (!config.gpus.empty()) {
    ShowOnlyGpus(config.gpus);  // Also to what is prepared by them.
  }
  Result<Preparation> prepared =
      config.cannot_start.empty() ? Prepare(config) : Result<Preparation>(Preparation{});
  if (!prepared) {
    const Error& error = prepared.error();
    const std::string why = WithOrigins(InOneLine(error.message), config.settings);
    const std::string meant = PerhapsAVerb(config.own_command, error);
    if (error.kind == ErrorKind::kInvalid || !meant.empty() || !TellsOtherNodes(config)) {
      Announce(LogLevel::kError, meant.empty() ? why : meant);
      return kExitUsage;
    }
    config.cannot_start = why;
    prepared = Preparation{};
  }
  if (config.dry_run) {
    SayStartupWarnings(config, *prepared);
    return PrintOut(DescribePlan(config, *prepared));
  }
  if (const Result<void> enough = HaveDescriptors(); !enough) {
    Announce(LogLevel::kError, enough.error().message);
    return kExitInternal;
  }
  HaveRunDirectory(config);
  return RunGuarded(
      [&](GuardLink guard) {
        QueueLog();  // First of all: the reader of stderr may not read.
        SayStartupWarnings(config, *prepared);
        if (config.verbose) {
          SayOrigins(config);
        }
        SayWorkerCount(config, *prepared);
        ApplyToEnvironment(config, *prepared);
        const int code = RunNode(config, *prepared, std::move(guard));
        FlushLog(kLogFlushLimit);
        return code;
      },
      [&](const std::string& held) { ReleaseClaim(config.run_dir, held); });
}

}  // namespace ddprun
