#include "launcher/check/check.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/check/check_worker.h"
#include "launcher/check/node_look.h"
#include "launcher/command_line/host_places.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

int CheckAlone(const CheckRequest& request) {
  StartLog("ddprun", LogLevel::kInfo);
  const Checked checked{{LookAtNode(ParseCheckWorker(request.launch.args))}, {}, {}};
  const std::string text = request.json ? InJson(checked) : InWords(checked);
  const bool told = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return told && !checked.Bad() ? kExitOk : 1;
}

}  // namespace

int Check(const CheckRequest& request, const std::function<int(const LaunchConfig&)>& launch) {
  const LaunchConfig& config = request.launch;
  if (config.standalone && config.around.launcher.empty() && !config.dry_run) {
    return CheckAlone(request);
  }
  if (!config.around.launcher.empty() || config.dry_run) {
    return launch(config);  // An srun that was forgotten: each of its tasks comes here again.
  }
  std::string verdict = (FindTemporaryPlace().path / "ddprun-check-XXXXXX").native();
  const UniqueFd file(::mkostemp(verdict.data(), O_CLOEXEC));
  if (!file) {
    std::fprintf(
        stderr, "ddprun check: %s\n",
        InOneLine(SystemError("make a file for the verdict like", verdict, errno).message).c_str());
    return kExitInternal;
  }
  ::setenv(kCheckVerdict, verdict.c_str(), 1);
  const int code = launch(config);
  const Result<std::string> said = ReadFile(verdict, 16);
  ::unlink(verdict.c_str());
  return code == kExitOk && said && *said == "bad" ? 1 : code;
}

}  // namespace ddprun
