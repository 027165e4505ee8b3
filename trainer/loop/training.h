// Shared by the parts of one worker's training: its configuration, its peers, its model and
// data, and how far it has come; and what each part is to the loop, an observer of its steps.
//
// Torch-free: tensors live in the learner, peers in the process group.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/result.h"
#include "proto/notify.h"
#include "proto/worker_env.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/data/batch_feed.h"
#include "trainer/data/dataset.h"
#include "trainer/device/choose_device.h"
#include "trainer/disk/line_file.h"
#include "trainer/disk/read_watch.h"
#include "trainer/disk/run_files.h"
#include "trainer/group/process_group.h"
#include "trainer/heartbeat.h"
#include "trainer/learning/learner.h"
#include "trainer/options/config.h"
#include "trainer/progress.h"
#include "trainer/schedule.h"
#include "trainer/stop_guard.h"

namespace ddprun {

class Saving;
class StepObserver;

struct Training {
  // All arguments must outlive it. `fail` ends the process; another thread calls it while the
  // training thread waits for a file system that hangs.
  Training(const TrainConfig& train_config, const WorkerEnv& worker_env, const Notifier& notifier,
           const Device& own_device, std::function<void(const Error&)> fail);

  bool IsRankZero() const { return env.rank == 0; }
  // Logs a line below the line that shows the progress.
  void Say(LogLevel level, const std::string& text);

  std::uint64_t Epochs() const { return static_cast<std::uint64_t>(config.epochs); }
  bool Done() const { return stopped_early || state.epoch >= Epochs(); }
  std::uint64_t StepsLeft() const;
  // The fewest samples of a step (--drop-last).
  std::uint64_t LeastBatch() const { return config.learning.drop_last ? state.global_batch : 1; }
  // The rate of the next step, which the schedule makes of `lr`.
  double LearningRate(double lr) const;
  double LearningRate() const { return LearningRate(config.lr); }
  // The most samples that this rank learns from in one part of a step.
  std::uint64_t LargestPart() const;
  // The plan of this rank's samples from the present state on.
  FeedPlan Feed(std::uint64_t most_per_part, bool ahead) const;
  // The state to save after the last finished step. It holds no states of random generators: what
  // a step draws at random is a function of (seed, step, rank), see StepSeed.
  TrainState StateNow() const;

  const TrainConfig& config;
  const WorkerEnv& env;
  const Device& device;

  std::vector<StepObserver*> observers;  // Set by TrainingSteps.
  Dataset dataset;
  bool samples_on_disk = false;  // Samples of a batch are read from files that may hang.
  // Scores some samples of a set, on this rank only.
  std::function<Result<Score>(const Samples& set, std::span<const std::uint32_t> indices)> evaluate;
  std::uint64_t evaluation_batch = 1;  // The most samples of one such call.
  // The sets to be evaluated after the last step, in this order; the names are those of the result.
  std::vector<std::pair<std::string, const Samples*>> final_sets;
  Heartbeat heartbeat;
  std::optional<StopGuard> guard;  // While steps are taken, in a world of several ranks.
  ReadWatch reads;
  std::unique_ptr<ProcessGroup> group;
  std::unique_ptr<Learner> learner;        // Destroyed before the group.
  std::optional<ProgressPrinter> printer;  // Rank 0 only.
  LineFile metrics;                        // Rank 0 only.
  LineFile curves;                         // Rank 0 only.
  std::optional<RunFiles> run_files;       // Rank 0 only.

  Schedule schedule;
  TrainState state;            // With the step and cursor of the last finished step.
  bool validated = false;      // A validation followed the step just taken.
  bool best = false;           // That validation is the best one so far.
  bool stopped_early = false;  // --early-stop has ended the training.
  bool stop = false;           // All ranks have agreed to stop.
};

enum class TrainingEnd {
  kFinished,
  kStopped,  // On request (StopRequest): saved, so that a later start can continue.
};

struct FinishedStep {
  std::uint64_t epoch = 0;  // Of its samples, from 0.
  bool epoch_ended = false;
  std::span<const std::uint32_t> samples;         // Of this rank.
  std::optional<std::chrono::microseconds> work;  // Before it waited for its peers; none: unknown.
};

// Follows the steps of a training, to report, save or stop: the loop calls all observers in order.
//
// Every rank has the same observers in the same order, so an observer may use collectives. An error
// ends the training.
class StepObserver {
 public:
  explicit StepObserver(Training& training) : training_(training) {}
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;
  virtual ~StepObserver() = default;

  // Of rank 0, where there is no state to continue from: on a thread, reads another one; then gives
  // it to the learner, with a note for the log.
  virtual Result<void> ReadFreshState() { return {}; }
  virtual Result<void> TakeFreshState(std::vector<std::string>& /*notes*/) { return {}; }
  // The state to start from is in the learner.
  virtual Result<void> BeforeFirstStep() { return {}; }
  // Before the step's samples are taken.
  virtual Result<void> BeforeStep() { return {}; }
  // The parameters have been updated, and Training::state counts the step.
  virtual Result<void> AfterStep(const FinishedStep& /*step*/) { return {}; }
  // No step comes, and the final evaluations follow. Not after a stop.
  virtual Result<void> AfterLastStep() { return {}; }
  // Of rank 0. The last checkpoint is saved, by an earlier start perhaps, and is still ours.
  virtual Result<void> AfterLastSave(Saving& /*saving*/,
                                     const std::shared_ptr<const Snapshot>& /*last*/) {
    return {};
  }
  // The training has ended, with an error perhaps. Everything that had to be saved is.
  virtual Result<void> Close(const Result<TrainingEnd>& /*end*/) { return {}; }

 protected:
  Training& training_;
};

}  // namespace ddprun
