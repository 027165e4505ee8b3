// One child of this process that is no worker, such as a user's command or a tool: from its start
// to its end, on the calling thread, with which it would die.
//
//   running --it ends----------------------> the rest of its process group is killed
//   running --its limit is over, given up--> killed with its group (or asked to end), and waited
//   for
//
// Its output is passed on until then, even if other processes have its streams. A thread stays here
// for as long as the kernel keeps the child.
#pragma once

#include <signal.h>

#include <functional>
#include <optional>
#include <string_view>

#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_spec.h"
#include "common/exit_status.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

struct ChildPlan {
  std::optional<Duration> limit = {};
  int out = -1;          // Its standard output; -1: `output` gets it.
  bool both = false;     // Standard error goes where standard output goes.
  bool errors = false;   // `output` gets standard error; if neither is set, it is dropped.
  int signal = SIGKILL;  // Where it is given up: another one only asks it to end.
  int ends = -1;         // Readable: it is killed.
  // A process of its group that tidies up after it (Python's tracker of shared memory) may end by
  // itself. For a process to which orphans come: others of the group are found among its
  // descendants.
  bool spares_trackers = false;
  // Of STDOUT_FILENO or STDERR_FILENO. False: no more of it is read, and writing it is refused.
  std::function<bool(int stream, std::string_view bytes)> output = {};
};

class ChildRun {
 public:
  // Once. nullopt: its limit was over, or its status is lost. An error: it was not started.
  Result<std::optional<ExitStatus>> Run(const WorkerSpec& spec, const ChildPlan& plan);
  // From any thread.
  void GiveUp() { under_way_.GiveUp(); }

 private:
  LaunchUnderWay under_way_;
};

}  // namespace ddprun
