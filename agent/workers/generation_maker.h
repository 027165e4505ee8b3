// Makes a generation: its files on disks, its workers' output, its processes. A disk may hang in
// any of these steps, so a thread takes them: nothing here makes the loop wait.
//
// One thread serves all generations, since a worker dies with the thread that started it
// (PDEATHSIG). The caller decides what is given up. Two generations never have processes at once:
//
//   being made      | given up                                   | the step that hung returns later
//   ----------------|--------------------------------------------|---------------------------------
//   no process yet  | gone at once; the thread is left behind    | it starts nothing, and ends
//   processes begun | all are killed, also the one that is being | the thread reaps what it began;
//                   | begun; gone when no process is left        | gone then
//   made            | as before: the thread ends what was made   |
//
// If the machine has no room for one more process (EAGAIN, ENOMEM), others may just be ending. So
// the start is repeated, less and less often, until patience is over. A machine that is full for a
// moment then uses no restart, and a run does not use all its restarts up at once.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/workers/warm_start.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_output.h"
#include "agent/workers/worker_spec.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/task_queue.h"

namespace ddprun {

struct SpawnedWorker {
  WorkerSpec spec;
  LaunchedWorker process;
  OpenedOutput output;  // Without the child's ends.
};

// Called before each step that may wait for a disk, with the step in words: "opening
// '/x/stdout.log'". An error: the generation was given up.
using BeginStep = std::function<Result<void>(std::string step)>;

// Makes the files that the workers need, and returns their specs. Runs on the maker's thread,
// perhaps long after the generation was given up, so it owns everything that it uses.
using PrepareWorkers = std::function<Result<std::vector<WorkerSpec>>(const BeginStep& begin)>;

class GenerationMaker {
 public:
  // `patience`: how long to try on a machine that has no room for one more process. `warm`: forks
  // workers from a preload process; none: every worker is started from its file.
  GenerationMaker(Loop& loop, Duration patience, std::shared_ptr<WarmStart> warm);
  // Kills processes of a generation that `made` was not called for yet. Workers of the last one die
  // with the thread. Waits for Cleanup's work for a second at most.
  ~GenerationMaker();
  GenerationMaker(const GenerationMaker&) = delete;
  GenerationMaker& operator=(const GenerationMaker&) = delete;

  // Starts all workers or none. Calls `made` on the loop, later, unless GiveUp is called before.
  // After an error no process is left. No other generation may be in the making.
  void Make(PrepareWorkers prepare, std::function<void(Result<std::vector<SpawnedWorker>>)> made);

  // Calls `gone` on the loop, later, once no process is left of the generation that is being made.
  // A second call kills again, and its `gone` is dropped.
  void GiveUp(std::function<void()> gone);

  // Runs `work`, which removes a generation's files, on the thread after everything else.
  void Cleanup(std::function<void()> work);

  // WarmStart::Look at these workers, on the thread, where it has nothing else to do.
  void LookAt(std::vector<pid_t> workers);

  bool making() const { return job_ != nullptr; }

  // The step that is under way, for people; "": none is.
  std::string Step() const;

 private:
  struct Job;
  void OnDone(const std::shared_ptr<Job>& job);

  Loop& loop_;
  const Duration patience_;
  const std::shared_ptr<WarmStart> warm_;
  // Its thread starts the workers. Another one after a step that hangs.
  std::unique_ptr<TaskQueue> queue_ = std::make_unique<TaskQueue>();
  std::shared_ptr<Job> job_;  // Shared with the thread.
};

}  // namespace ddprun
