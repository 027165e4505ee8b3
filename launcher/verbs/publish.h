// `ddprun publish NEW FINAL`: what a worker made becomes visible as FINAL, unless a newer world of
// its run has taken its place (trainer/checkpoint/fenced_publish.h).
//
// For programs in any language that write results of their own. The world that asks is read from
// the worker's environment; outside of ddprun every call is a world of its own, which is never
// refused.
#pragma once

#include <filesystem>

#include "proto/worker_env.h"

namespace ddprun {

struct PublishCommand {
  std::filesystem::path source;
  std::filesystem::path target;
};

// The exit code; kExitDoNotRestart: refused, nothing was replaced.
int PublishAs(const PublishCommand& command, const GetEnv& get_env);

}  // namespace ddprun
