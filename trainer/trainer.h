// One worker's training, from joining its world to the final lines: the step loop.
//
// trainer.cc reads from top to bottom, in the order of RunToTheEnd. Every rank takes the same steps
// on its share of each global batch. Only rank 0 prints, saves, and chooses the checkpoint to start
// from. Torch-free: tensors live in the learner, peers in the process group. A stop request to any
// rank makes all of them save and end after the same step, at most about 0.1 s later or at the next
// step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/result.h"
#include "proto/notify.h"
#include "proto/worker_env.h"
#include "trainer/checkpointing.h"
#include "trainer/data/batch_feed.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/device/choose_device.h"
#include "trainer/disk/read_watch.h"
#include "trainer/disk/run_files.h"
#include "trainer/disk/sample_log.h"
#include "trainer/group/process_group.h"
#include "trainer/heartbeat.h"
#include "trainer/learning/learner.h"
#include "trainer/memory_snapshots.h"
#include "trainer/models/model.h"
#include "trainer/options/config.h"
#include "trainer/profiler/profiler.h"
#include "trainer/progress.h"
#include "trainer/stop_guard.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {

enum class TrainingEnd {
  kFinished,
  kStopped,  // On request (StopRequest): saved, so that a later start can continue.
};

class Trainer {
 public:
  struct Calls {
    std::function<Result<Dataset>()> load;  // Called on a thread; may wait for a disk.
    // Ends the process, called from another thread while this one is stuck on a disk.
    std::function<void(const Error&)> fail;
  };
  // All arguments outlive the trainer.
  Trainer(const TrainConfig& config, const WorkerEnv& env, Calls calls, const Notifier& notifier,
          const Device& device);

  // kUnavailable: a peer is gone, start the world again. kRefused: another world or run owns the
  // checkpoints. kInvalid: the command line does not fit the data or the checkpoint. After an error
  // the process must end with _exit: a broken process group cannot be destroyed in bounded time.
  Result<TrainingEnd> Run();

 private:
  struct Evaluation {  // Over all ranks.
    double loss = 0;
    double accuracy = 0;
  };

  Result<TrainingEnd> RunToTheEnd();
  Result<void> JoinWorld();
  Result<void> LoadData();
  Result<void> MakeLearner();
  Result<StartPlan> AgreeOnStart();
  // The states that were found in memory and, by rank 0, on its disk. Filled in on a thread.
  struct Choice {
    TrainState asked;
    std::optional<Snapshot> found;         // In this node's memory.
    std::optional<Remembered> remembered;  // The newest that any rank has found.
    Result<void> read;
    StartPlan plan;
    std::optional<Snapshot> loaded;
    std::vector<Tensor> given;  // From --init-from, if no checkpoint was loaded.
  };
  Result<void> LookInMemory(const std::shared_ptr<Choice>& choice);
  Result<void> OpenRunFiles(const StartPlan& plan);  // Rank 0.
  Result<void> ReadStart(Choice& choice);            // Rank 0, on the disk's thread.
  Result<StartPlan> ChooseStart(Choice& choice);     // Rank 0.
  Result<void> StartLearner(const StartPlan& plan);
  Result<void> StartFromOthers(const std::vector<Tensor>& given, StartPlan& plan);  // Rank 0.
  Result<TrainingEnd> TrainOn();
  Result<void> TakeStep();
  Result<void> AfterStep(bool epoch_ended);
  bool Done() const { return stopped_early_ || state_.epoch >= Epochs(); }
  Result<void> AgreeOnStop();
  Result<void> SaveAndStop();
  void FinishProfile();
  void SaveIfAskedToStop();
  Result<void> SumAtEnd(std::span<double> sums);
  Result<void> SaveIfDue(bool epoch_ended);
  bool MayRemember() const;
  void Remember();
  void WaitForCopies() const;
  Result<void> Validate();
  Result<void> Report(std::uint64_t epoch, bool epoch_ended);
  // `at_end`: the training's state does not depend on the result, so a stop can save it meanwhile.
  Result<Evaluation> Evaluate(const Samples& samples, bool at_end);
  Result<void> Finish();
  Result<void> SayHowFarApart();
  Result<void> WriteEverything(bool save);  // Rank 0.
  Result<void> PublishResult(const Snapshot& last);
  Result<void> SayFinishedBefore(const TrainState& state);
  // `work` runs on a thread, and WaitForDisk returns its result. While it lasts this rank tells
  // people and its launcher so. A stop does not wait for it for long (disk_wait.h) and gives an
  // error. Then `work` may run until the process ends, so it owns what it uses, except for the
  // trainer. `bytes`: about how many are read or written.
  struct DiskTask {
    std::string what;  // "the last checkpoint (step 40) is being saved in 'ckpt'"
    std::uint64_t bytes = 0;
    std::function<Result<void>()> work;  // Empty: only other ranks have work.
    bool on_disk = true;                 // False: the work computes, and messages say so.
  };
  Result<void> WaitForDisk(DiskTask task);
  // The same by all ranks together, of which one or more have work, so that peers do not consider a
  // rank as gone. Lasts until all is done, or one has failed. Returns the result of the own work.
  Result<void> WaitForDiskTogether(DiskTask task);
  Result<void> Wait(DiskTask&& task, bool together);
  Result<void> PrintResult(const TrainState& state);
  TrainState StateNow() const;
  Snapshot MakeSnapshot() const;

  bool IsRankZero() const { return env_.rank == 0; }
  std::uint64_t LargestPart() const;
  bool IsRegular(const GlobalBatch& batch) const;  // As Part::regular.
  double LearningRate() const;
  std::uint64_t Epochs() const;
  std::uint64_t StepsLeft() const;
  std::uint64_t SamplesLeft() const;

  const TrainConfig& config_;
  const WorkerEnv& env_;
  const Calls calls_;
  Dataset dataset_;
  const ModelEntry& model_;
  const Device& device_;

  Heartbeat heartbeat_;
  std::optional<StopGuard> guard_;  // While steps are taken, in a world of several ranks.
  ReadWatch reads_;
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<Learner> learner_;              // Destroyed before the group.
  std::unique_ptr<MemorySnapshots> memory_;       // None: on no rank.
  std::uint32_t state_from_ = 0;                  // The rank that sends the state to all.
  std::unique_ptr<Checkpointing> checkpointing_;  // Rank 0 only.
  std::optional<ProgressPrinter> printer_;        // Rank 0 only.
  std::optional<MetricsFile> metrics_;            // Rank 0 only.
  CurveFile curves_;                              // Rank 0 only.
  std::optional<SampleLog> sample_log_;
  std::optional<BatchFeed> feed_;  // Fills the learner's memory, so it is destroyed before it.

  Schedule schedule_;
  TrainState state_;  // With the step and cursor of the last finished step.

  std::chrono::milliseconds skew_{0};  // An artificial delay in each step (--skew).

  Profiler profiler_;
  std::optional<RunFiles> run_files_;  // Rank 0 only.
  bool best_ = false;                  // The step just taken has the best validation so far.
  bool save_asked_ = false;            // By the file SAVE, or by a signal.
  bool stopped_early_ = false;
  bool replays_ = false;  // It was logged that steps are replayed.

  std::uint64_t agree_at_ = 0;  // The step at which all ranks next agree whether to stop.
  std::uint64_t agreed_step_ = 0;
  std::chrono::steady_clock::time_point agreed_at_;
  bool stop_ = false;  // All ranks have agreed to stop.
  std::uint64_t report_at_ = 0;
  std::uint64_t reported_step_ = 0;
  std::chrono::steady_clock::time_point reported_at_;
};

}  // namespace ddprun
