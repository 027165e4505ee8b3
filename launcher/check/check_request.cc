#include "launcher/check/check_request.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr const char* kWorkerFlag = "--worker";

// Whatever it was called by.
std::string OwnProgram() {
  std::string path(PATH_MAX, '\0');
  const ssize_t got = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return path.empty() ? "ddprun" : path;
}

// "--name=value" of the worker's own making; false: another one.
bool TakeValue(const std::string& arg, const std::string& name, std::string& value) {
  const bool mine = arg.starts_with(name + "=");
  value = mine ? arg.substr(name.size() + 1) : value;
  return mine;
}

void BecomeWorker(LaunchConfig& config, const CheckRequest& request) {
  config.args = {"check", kWorkerFlag};
  const auto add = [&config](const char* name, const std::string& value) {
    if (!value.empty()) {
      config.args.push_back(std::string(name) + "=" + value);
    }
  };
  add("--output", request.json ? "json" : "");
  add("--pairs", request.pairs ? "" : "off");
  add("--facts", config.host_check == HostCheck::kOff ? "off" : "");
  add("--node-check", config.node_check);
  add("--node-check-timeout", std::to_string(config.node_check_timeout.count()));
  config.node_check.clear();  // It is told with all else, and keeps nobody out.
  config.host_check = HostCheck::kOff;
  config.workers = 1;
  config.no_python = true;
  config.module = false;
  config.shape.max_restarts = 0;
  config.shape.scale_up = false;
  config.log_dir = "/dev/null";  // Nothing is written.
}

constexpr const char* kCheckHelp =
    "usage: ddprun check [-o text|json] [--no-pairs] [flags of a launch]\n\n"
    "Looks at this machine, or at all nodes of a run (srun ddprun check; --nnodes=N with\n"
    "--rdzv-endpoint): GPUs (--host-check), the command of\n"
    "--node-check, and how fast the nodes reach each other in pairs, by plain TCP. Names "
    "what\n"
    "is bad or slow.\n\n"
    "  -o,--output text|json   How it is told (default text)\n"
    "  --no-pairs              Not the network between the nodes\n\n"
    "Exit codes: 0 all is well; 1 something is bad, as told; 2 a bad command line; else as "
    "of\n"
    "a launch (69: not all nodes came).\n";

}  // namespace

CheckWorkerRequest ParseCheckWorker(const std::vector<std::string>& args) {
  CheckWorkerRequest request;
  for (const std::string& arg : args) {
    std::string milliseconds;
    if (TakeValue(arg, "--node-check-timeout", milliseconds)) {
      request.node_check_timeout = Duration(std::strtol(milliseconds.c_str(), nullptr, 10));
    }
    request.json = request.json || arg == "--output=json";
    request.pairs = request.pairs && arg != "--pairs=off";
    request.facts = request.facts && arg != "--facts=off";
    TakeValue(arg, "--node-check", request.node_check);
  }
  return request;
}

Error PrintsNothingElse() {
  return {ErrorKind::kInvalid,
          "ddprun check looks at machines, and prints nothing else: --version, --print-completion "
          "and the like are ddprun's own (ddprun --help)"};
}

Result<void> TakesNoProgram(const std::vector<std::string>& rest) {
  if (!rest.empty()) {
    return Invalid("ddprun check takes no program", InOneLine(rest.front()));
  }
  return {};
}

Result<CheckLine> ParseCheck(const std::vector<std::string>& args, const ParseItsLaunch& launch) {
  if (!args.empty() && args.front() == kWorkerFlag) {
    return CheckLine(ParseCheckWorker(args));
  }
  CheckRequest request;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string format;
    const bool follows = args[i] == "-o" || args[i] == "--output";
    if (follows && i + 1 == args.size()) {
      return Error{ErrorKind::kInvalid, "option " + args[i] + " needs a value"};
    }
    if (follows || TakeValue(args[i], "--output", format)) {
      format = follows ? args[++i] : format;
      if (format != "text" && format != "json") {
        return Invalid("--output must be text or json", InOneLine(format));
      }
      request.json = format == "json";
    } else if (args[i] == "-h" || args[i] == "--help") {
      return CheckLine(CheckHelp{kCheckHelp});
    } else if (args[i] == "--no-pairs") {
      request.pairs = false;
    } else {
      others.push_back(args[i]);
    }
  }
  ASSIGN_OR_RETURN(request.launch, launch(others, OwnProgram()));
  BecomeWorker(request.launch, request);
  return CheckLine(std::move(request));
}

}  // namespace ddprun
