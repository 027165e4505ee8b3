// Starts one worker process with everything a worker's process must be: a session of its own
// (a helper: a process group), dead
// when the agent dies, default signals, the user's limits, no descriptor but its three.
//
// Blocks until execve has succeeded or failed: well below a millisecond, or as long as the
// program's disk takes. The process dies with the thread that called.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

// Limits as the user set them; the agent may raise its own. The first call remembers, so it is made
// before anything changes them.
const std::array<std::optional<rlimit>, RLIMIT_NLIMITS>& UserLimits();

// The cause of this answer of fork, in brackets after the system's words; empty: another answer.
std::string LimitOfProcesses(int error_number);

// Descriptors that become 0, 1 and 2; each is that very number (inherited) or above 2.
using ChildStdio = std::array<int, 3>;

struct LaunchedWorker {
  pid_t pid = 0;
  UniqueFd pidfd;
};

// The view that another thread has of a launch that hangs, and its way to give it up.
class LaunchUnderWay {
 public:
  LaunchUnderWay();
  // Kills the process if there is one already; if not, it ends before it executes anything.
  void GiveUp();
  bool given_up() const { return given_up_; }
  // Becomes readable then; -1: the system had none.
  int wake() const { return wake_.get(); }

  // Of the new process, in that (it shares the agent's memory) or where another one made it: false:
  // it is not to continue.
  bool Begun(pid_t pid);
  // The launch has returned; only then the process may be reaped.
  void End();

 private:
  std::mutex mutex_;  // Between GiveUp and End.
  std::atomic<bool> given_up_ = false;
  std::atomic<pid_t> pid_ = 0;
  const UniqueFd wake_;
};

// As the kernel takes it: bit n of the row of words is CPU n. None: no words.
std::vector<unsigned long> MaskOf(const CpuSet& cpus);

// The error names the step that failed, its object and the system's answer. kUnavailable: there is
// no room for a process now, and another try may find some.
Result<LaunchedWorker> LaunchWorker(const WorkerSpec& spec, const ChildStdio& stdio,
                                    LaunchUnderWay* under_way = nullptr);

}  // namespace ddprun
