// When a worker is forked from a template and when it is started from its file: the one place that
// knows. A template is never needed: whatever is wrong with it is said in one line, the workers
// start cold, and another one is made beside them, at most kMostTemplates for a run.
//
//   a worker differs from the template in...      | it starts
//   ----------------------------------------------|------------
//   names that ranks and generations give         | warm
//   CPUs                                          | warm; cold where OpenMP has looked at them
//   arguments, any other variable, its directory  | cold
//   the kind of its streams (file, pipe, terminal)| cold
//
// On the maker's thread (generation_maker.h), which may wait; Close from any.
#pragma once

#include <sys/stat.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "agent/workers/worker_template.h"

namespace ddprun {

// What a template is to be, once per agent.
struct WarmPlan {
  WorkerSpec spec;            // As a worker's, but without the names below.
  std::set<std::string> own;  // Names that each worker has by itself.
  bool inherit = false;       // OpenOutput's.
  std::string preload;        // For Python: modules, or "imports"; "": the program is one itself.
};

// The names that differ from worker to worker, or from generation to generation.
std::set<std::string> NamesOfWorkers(bool one_gpu_each);

class WarmStart {
 public:
  static constexpr int kMostTemplates = 5;
  // For an interpreter to say that it would be a template.
  static constexpr Duration kMostProbing{10'000};
  // The first generation waits so long for a template that loads; the next ones do not.
  static constexpr Duration kMostLoading{60'000};

  // Its output is to be read: called on the maker's thread.
  using OnStarted = std::function<void(const WorkerSpec&, OpenedOutput)>;

  WarmStart(WarmPlan plan, OnStarted on_started);
  ~WarmStart() { Close(); }

  // Has a template, if there can be one: for a moment when nobody waits.
  void Prepare();
  // Before the workers of a generation; words for people: what it waits for, "" nothing.
  std::string WaitsFor() const;
  void Await(const LaunchUnderWay& under_way);

  // Warm where that can be, else cold.
  Result<LaunchedWorker> Launch(const WorkerSpec& spec, const ChildStdio& stdio,
                                LaunchUnderWay& under_way);

  // No template from here on; the one that is there ends.
  void Close();

 private:
  std::shared_ptr<WorkerTemplate> Current() const;
  std::string WhyCold(const WorkerSpec& spec, const ChildStdio& stdio) const;
  static Result<void> Probe(const WorkerSpec& probe, const ChildStdio& stdio);
  Result<void> Start();
  void SayCold(const std::string& why);

  const WarmPlan plan_;
  const OnStarted on_started_;
  std::array<struct stat, 3> streams_{};  // Of the template.
  std::string said_;                      // The last reason.
  int made_ = 0;
  bool waited_ = false;  // For the one that is there.

  mutable std::mutex mutex_;  // For what Close needs.
  std::shared_ptr<WorkerTemplate> template_;
  bool closed_ = false;
};

}  // namespace ddprun
