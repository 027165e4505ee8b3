// One call of a scheduler's own command (squeue, scontrol), beside everything else that the agent
// does: nothing waits for it, and it never lasts longer than its limit. It is looked for, started
// and waited for on a thread of its own: its disk may hang.
//
// Says nothing itself and decides nothing. A command that is not in PATH is an error like one that
// fails.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/workers/child_run.h"
#include "common/lifetime.h"
#include "common/loop.h"
#include "common/result.h"

namespace ddprun {

class SchedulerCommand {
 public:
  // The text that it printed on stdout, or why it failed, with its stderr; control characters made
  // visible. Of each stream 64 KiB are taken; a command that continues writing gets SIGPIPE.
  using Done = std::function<void(const Result<std::string>& printed)>;

  // `done` once, on the loop, later than the constructor's end.
  SchedulerCommand(Loop& loop, const std::vector<std::string>& words, Duration limit, Done done);
  // Kills what still runs; `done` is not called then.
  ~SchedulerCommand() { child_->GiveUp(); }

 private:
  // Shared with its thread, which stays for as long as the process does: that would die with it
  // (PDEATHSIG).
  const std::shared_ptr<ChildRun> child_ = std::make_shared<ChildRun>();
  const Lifetime life_;
};

}  // namespace ddprun
