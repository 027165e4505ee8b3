// Makes a generation: what it needs on disks, its workers' output, its processes. A disk may hang
// in any of these steps, so they are a thread's: nothing here makes the loop wait.
//
// One thread for all generations, since a worker dies with the thread that started it (PDEATHSIG).
// Decides nothing: who gives up what is the caller's. Of two generations never both have a process:
//
//   being made      | given up                                   | the step that hung returns later
//   ----------------|--------------------------------------------|---------------------------------
//   no process yet  | gone at once; the thread is left behind    | it starts nothing, and ends
//   processes begun | all are killed, also the one that is being | the thread reaps what it began;
//                   | begun; gone when no process is left        | gone then
//   made            | as before: the thread ends what was made   |
//
// Where there is no room for a process (EAGAIN, ENOMEM), others may just be ending: that one is
// tried again, ever less often, until patience is over. So a full machine costs no restart at once,
// and a run does not use all of them up in a moment.
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

namespace ddprun {

struct MadeWorker {
  WorkerSpec spec;
  LaunchedWorker process;
  OpenedOutput output;  // Without the child's ends.
};

// One generation in the making, as its thread sees it.
class Making {
 public:
  virtual ~Making() = default;
  // Before each step that may wait for a disk, in words for people: "opening '/x/stdout.log'". An
  // error: nobody wants the generation any more.
  virtual Result<void> Begin(std::string step) = 0;
};

// Makes what the workers need on disks, and says who they are. On the maker's thread, and perhaps
// long after it was given up, so it owns what it uses.
using PrepareWorkers = std::function<Result<std::vector<WorkerSpec>>(Making& making)>;

class GenerationMaker {
 public:
  // `patience`: with a machine that has no room for one more process. `warm`: what workers are
  // begun with; none: from their file.
  GenerationMaker(Loop& loop, Duration patience, std::shared_ptr<WarmStart> warm);
  // Kills what was begun and is not told yet. Workers that were made die. Waits for Tidy's work, a
  // moment at most.
  ~GenerationMaker();
  GenerationMaker(const GenerationMaker&) = delete;
  GenerationMaker& operator=(const GenerationMaker&) = delete;

  // All or none: `made` comes on the loop, later, unless GiveUp is called before. After an error no
  // process is left. Nothing may be in the making.
  void Make(PrepareWorkers prepare, std::function<void(Result<std::vector<MadeWorker>>)> made);

  // `gone` comes on the loop, later, once no process is left of what is in the making. A second
  // call kills again, and its `gone` is dropped.
  void GiveUp(std::function<void()> gone);

  // `work`, which is to remove what a generation left on disks, on the thread after all else.
  void Tidy(std::function<void()> work);

  bool making() const { return job_ != nullptr; }

  // What is done now, for people; "": nothing.
  std::string Step() const;

 private:
  struct Job;
  struct Line;
  bool HaveLine();
  void OnDone(const std::shared_ptr<Job>& job);

  Loop& loop_;
  const Duration patience_;
  const std::shared_ptr<WarmStart> warm_;
  std::shared_ptr<Line> line_;  // With its thread.
  std::shared_ptr<Job> job_;    // Shared with the thread.
};

}  // namespace ddprun
