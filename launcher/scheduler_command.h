// One call of a scheduler's own command (squeue, scontrol), beside everything else that the agent
// does: nothing waits for it, and it never lasts longer than its limit.
//
// Says nothing itself and decides nothing. A command that is not in PATH is an error like one that
// fails.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/asio_loop.h"
#include "common/result.h"

namespace ddprun {

class SchedulerCommand {
 public:
  // What it printed on stdout, cut at 64 KiB, or why it failed, with what it said on stderr.
  using Done = std::function<void(const Result<std::string>& printed)>;

  explicit SchedulerCommand(AsioLoop& loop);
  ~SchedulerCommand();  // Kills what still runs; `done` is not called then.

  // `done` once, on the loop, never from inside Run. A call replaces the one before.
  void Run(const std::vector<std::string>& words, Duration limit, Done done);

 private:
  class State;
  std::shared_ptr<State> state_;
  AsioLoop& loop_;
};

}  // namespace ddprun
