// What `ddprun check` is asked: the flags of a launch, for nodes and how they meet, and its own.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/command_line/config.h"

namespace ddprun {

struct CheckRequest {
  LaunchConfig launch;  // Its program is ddprun itself, as a worker.
  bool json = false;
  bool pairs = true;
};

// Such a worker: `ddprun check --worker ...`, started by one.
struct CheckWorkerRequest {
  bool json = false;
  bool pairs = true;
  bool facts = true;
  std::string node_check;
  Duration node_check_timeout{0};
};

struct CheckHelp {
  std::string text;
};
using CheckLine = std::variant<CheckRequest, CheckWorkerRequest, CheckHelp>;

CheckWorkerRequest ParseCheckWorker(const std::vector<std::string>& args);

// Understands a launch's flags, with that program.
using ParseItsLaunch = std::function<Result<LaunchConfig>(const std::vector<std::string>& flags,
                                                          const std::string& program)>;

// What such a line must not ask for.
Error PrintsNothingElse();
Result<void> TakesNoProgram(const std::vector<std::string>& rest);

// `args`: after the verb.
Result<CheckLine> ParseCheck(const std::vector<std::string>& args, const ParseItsLaunch& launch);

}  // namespace ddprun
