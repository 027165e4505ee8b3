// When a worker is forked from a preload process and when it is started from its file: the one
// place that knows. A preload process is never needed: any fault of it is reported in one line, the
// workers start without it, and another one is made beside them, at most kMostPreloadProcesses for
// a run.
//
// A plan is automatic where the user did not ask for a preload process. The preload process is then
// made once the workers run and have loaded torch. It loads in the background, and only State()
// reports it.
//
//   a worker differs from the preload process in  | it starts
//   ----------------------------------------------|------------
//   names that ranks and generations give         | warm
//   CPUs                                          | warm; cold where OpenMP has looked at them
//   the program's arguments                       | warm, if it is Python; else cold
//   its command, any other variable, its directory| cold
//   the kind of its streams (file, pipe, terminal)| cold
//
// On the maker's thread (generation_maker.h), which may wait; Close from any.
#pragma once

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/workers/preload_handle.h"

namespace ddprun {

// The plan of an agent's preload processes.
struct WarmPlan {
  WorkerSpec spec;            // As a worker's, but without the names below.
  std::set<std::string> own;  // Names that each worker has by itself.
  bool inherit = false;       // OpenOutput's.
  std::string preload;        // For Python: modules, or "imports"; "": the program is one itself.
  bool automatic = false;
  KeepPlan keep;
  std::shared_ptr<GivenPreload> given;  // Kept by the run before; none.
};

// The names that differ from worker to worker, or from generation to generation.
std::set<std::string> NamesOfWorkers(bool one_gpu_each);

class WarmStart {
 public:
  static constexpr int kMostPreloadProcesses = 5;
  // For an interpreter to say that it would be a preload process.
  static constexpr Duration kMostProbing{10'000};
  // The first generation waits so long for a preload process that loads; the next ones do not.
  static constexpr Duration kMostLoading{60'000};
  // The same for one that was kept, which looks only whether its files have changed.
  static constexpr Duration kMostChecking{2'000};

  // An automatic preload process is made only where this much memory is free. It uses some 400 MB,
  // and each worker copies the pages that it writes to.
  static constexpr std::uint64_t kLeastRoom = std::uint64_t{2} << 30;
  // Between two looks at workers that have not loaded torch; then twice as long, up to the longest.
  static constexpr Duration kFirstPause{2'000};
  static constexpr Duration kLongestPause{60'000};
  // Between two looks whether the interpreter has answered.
  static constexpr Duration kProbePause{200};

  // Its output is to be read: called on the maker's thread, and not once Close has returned.
  using OnStarted = std::function<void(const WorkerSpec&, OpenedOutput)>;

  WarmStart(WarmPlan plan, OnStarted on_started);
  ~WarmStart() { Close(); }

  // Starts a preload process if there can be one. Call it while no start waits.
  void Prepare();
  // The same for an automatic plan, once all `workers` have had torch loaded for a while and there
  // is room. To be called again and again while they run.
  void Look(const std::vector<pid_t>& workers);
  bool automatic() const { return plan_.automatic; }
  // The state of the preload process, for people; "": there is none. From any thread.
  std::string State() const;
  // Before the workers of a generation: the reason of a wait, for people; "": it does not wait.
  std::string WaitsFor() const;
  void Await(const LaunchUnderWay& under_way);

  // Warm where that can be, else cold.
  Result<LaunchedWorker> Launch(const WorkerSpec& spec, const ChildStdio& stdio,
                                LaunchUnderWay& under_way);

  // Leaves the preload process alive for the next run, if the plan says so and there is one. Its
  // pid; 0: there is none. Never waits.
  pid_t Keep();

  // No preload process from here on; the one that is there ends.
  void Close();

 private:
  std::shared_ptr<PreloadHandle> Current() const;
  std::string WhyCold(const WorkerSpec& spec, const ChildStdio& stdio) const;
  Result<bool> HasAnswered(const WorkerSpec& probe);
  Result<void> Start();
  void TakeGiven();
  PreloadPurpose Purpose() const;
  void SayKeptOneIsNotUsed(const std::string& why);
  void SayCold(const std::string& why);
  void Set(std::string state);
  std::vector<std::string> CommandLineOf(const WorkerSpec& spec) const;
  std::string WhyNotYet(const std::vector<pid_t>& workers);

  const WarmPlan plan_;
  const OnStarted on_started_;
  std::array<struct stat, 3> streams_{};  // Of the preload process.
  std::size_t shared_words_ = 0;          // Of the command: all before the program's arguments.
  std::vector<std::string> interpreter_;  // The same words as Python finds them; none: no Python.
  bool given_ = false;  // The preload process is the one that the run before has kept.
  std::string said_;    // The last reason.
  int made_ = 0;
  bool waited_ = false;  // For the one that is there.
  bool loaded_ = false;  // At the last look.
  std::shared_ptr<PreloadHandle> probe_;
  std::chrono::steady_clock::time_point probed_until_;
  Duration pause_ = kFirstPause;
  std::chrono::steady_clock::time_point next_look_;

  mutable std::mutex mutex_;  // For what Close and State need.
  std::string state_;
  std::shared_ptr<PreloadHandle> process_;
  bool closed_ = false;
};

}  // namespace ddprun
