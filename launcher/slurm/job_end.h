// Knows when the scheduler takes the machine away, and when the workers must hear of it.
//
// Known from --time-limit, else from the scheduler's variables, else, where --stop-before needs it,
// from squeue: one process of the job asks, once. That one then stops the run for all. Never asks
// on a formation's way: the run starts meanwhile. Wall clocks are compared with this machine's
// alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/core/node_agent.h"
#include "common/asio_loop.h"
#include "launcher/command_line/config.h"
#include "launcher/slurm/scheduler_command.h"

namespace ddprun {

// Parses the time that squeue prints as %L: "1-02:03:04", "2:03:04", "59:30", "30". nullopt:
// UNLIMITED, INVALID, NOT_SET, or another text.
std::optional<Duration> ParseTimeLeft(std::string_view text);

class JobEnd {
 public:
  // `on_known` on the loop, at most once, perhaps before the constructor returns.
  JobEnd(AsioLoop& loop, const LaunchConfig& config,
         std::function<void(const JobEndKnown&)> on_known);

 private:
  void Know(Duration left, const std::string& origin);

  AsioLoop& loop_;
  const LaunchConfig& config_;
  std::function<void(const JobEndKnown&)> on_known_;
  std::optional<SchedulerCommand> squeue_;
};

}  // namespace ddprun
