// A launch from the preload process that the last run has kept (--keep-warm), on the side of the
// `ddprun` that the user has started; and `ddprun preload`. agent/kept_launch.h has the other side.
#pragma once

#include <filesystem>
#include <optional>

#include "common/result.h"
#include "launcher/command_line/config.h"

namespace ddprun {

// Where the preload process of this program, in this directory and with this list, listens.
Result<std::filesystem::path> KeptSocket(const LaunchConfig& config);

// Launches from a kept process, if there is one. Returns the run's exit code. nullopt: nothing has
// happened, and this process launches it itself; a warning says why, if there was one of no use.
std::optional<int> LaunchFromKept(LaunchConfig& config);

struct KeptQuery {
  bool stop = false;  // End all of them.
};
int AnswerKept(const KeptQuery& query);

}  // namespace ddprun
