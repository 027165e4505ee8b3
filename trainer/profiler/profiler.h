// --profile: records the steps that the schedule names, then prints the table and writes the trace.
//
// Every rank records and writes <directory>/trace-generation-<g>-rank-<r>.json; rank 0's table goes
// to stderr. The trace is written on a thread: no rank waits for the disk. A
// newer one takes the place of one that still waits, and has all that is in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/result.h"
#include "common/task_queue.h"
#include "proto/worker_env.h"
#include "trainer/profiler/recorder.h"
#include "trainer/profiler/schedule.h"

namespace ddprun {

class Profiler {
 public:
  // The directory is made.
  static Result<Profiler> Open(const std::filesystem::path& directory,
                               const ProfileSchedule& schedule, const WorkerEnv& env);

  // Before each step.
  void BeginStep();
  // Whether EndStep hands one over, which may take its time.
  bool MakesTrace() const;
  // After each step; hands over a trace when an active phase is over.
  void EndStep();
  // No more steps: later ones are not recorded.
  void Stop() { recorder_.reset(); }
  // The same, and hands over what the last phase, cut short, has.
  void Finish();
  // Until all is written, but not for long. An error: it is not.
  Result<void> Flush();

 private:
  struct Trace;
  void Write();

  ProfileSchedule schedule_;
  std::uint32_t rank_ = 0;
  std::uint64_t step_ = 0;
  std::unique_ptr<OperatorRecorder> recorder_;  // While steps are recorded.
  std::vector<ProfiledEvent> events_;           // Of all active phases so far.
  bool written_ = true;
  std::shared_ptr<Trace> trace_;  // The thread's as well, which may outlive this.
  std::unique_ptr<TaskQueue> thread_;
};

}  // namespace ddprun
