#include "launcher/check/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/check/check_node.h"
#include "launcher/command_line/gpus.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

// A file that a worker of the check writes to where anything is bad on any node. It is in memory,
// so that it goes with the launch however that ends.
constexpr const char* kVerdict = "DDPRUN_CHECK_VERDICT";

int Fail(const Error& error, int code) {
  std::fprintf(stderr, "ddprun check: error: %s\n", InOneLine(error.message).c_str());
  return code;
}

// Alone, or as a worker of the check, which has failed only if it could not find out.
int CheckThisNode(const CheckRequest& request, const std::string& verdict) {
  StartLog("ddprun check", LogLevel::kInfo);
  if (!request.launch.gpus.empty()) {
    ShowOnlyGpus(request.launch.gpus);  // As a launch does.
  }
  const Result<bool> bad = verdict.empty() ? PrintReport({LookAtNode(request.launch)}, request.json)
                                           : CheckWithOthers(request.launch, request.json);
  if (!bad) {
    return Fail(bad.error(), 1);
  }
  if (*bad && !verdict.empty()) {
    const UniqueFd file(::open(verdict.c_str(), O_WRONLY | O_CLOEXEC));
    const Result<void> told = file ? WriteAll(file.get(), "bad\n", verdict)
                                   : Result<void>(SystemError("open", verdict, errno));
    return told ? kExitOk : Fail(told.error(), 1);
  }
  return *bad ? 1 : kExitOk;
}

// Its worker is this verb with all that it must know: it has no settings file, and no variables of
// ddprun's.
void StartThisVerb(LaunchConfig& config, bool json) {
  config.args = {
      "check", "--standalone", json ? "--output=json" : "--output=text",
      config.host_check == HostCheck::kOff ? "--host-check=off" : "--host-check=observe",
      "--node-check-timeout=" + std::to_string(config.node_check_timeout.count()) + "ms"};
  if (!config.node_check.empty()) {
    config.args.push_back("--node-check=" + config.node_check);
  }
  config.node_check.clear();  // Their findings are reported with all else, and keep no node out.
  config.host_check = HostCheck::kOff;
  config.workers = 1;
  config.no_python = true;
  config.module = false;
  config.spec.max_restarts = 0;
  config.spec.scale_up = false;
  config.log_dir = "/dev/null";  // Nothing is written.
}

}  // namespace

int Check(CheckRequest request, const std::function<int(const LaunchConfig&)>& launch) {
  LaunchConfig& config = request.launch;
  const std::string given = GetProcessEnv(kVerdict).value_or("");
  const bool forgotten_srun = !config.context.launcher.empty();
  if (!given.empty() || (config.standalone && !forgotten_srun && !config.dry_run)) {
    return CheckThisNode(request, given);
  }
  StartThisVerb(config, request.json);
  if (forgotten_srun || config.dry_run) {
    return launch(config);  // Each of srun's tasks comes here again.
  }
  const Result<UniqueFd> verdict = MemoryFile("ddprun-check", "");
  if (!verdict) {
    return Fail(verdict.error(), kExitInternal);
  }
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(verdict->get());
  ::setenv(kVerdict, path.c_str(), 1);
  const int code = launch(config);
  struct stat info {};
  const bool well = ::fstat(verdict->get(), &info) == 0 && info.st_size == 0;
  return code == kExitOk && !well ? 1 : code;
}

}  // namespace ddprun
