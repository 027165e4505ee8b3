// One worker's training, from joining its world to the final lines: the step loop.
//
// Reads top to bottom in RunToTheEnd (trainer.cc; how it begins and ends: trainer_start.cc,
// trainer_memory.cc, trainer_finish.cc). Every rank takes the same steps on its share of each
// global batch; rank 0 alone prints, chooses the checkpoint to start from and saves. Torch-free:
// tensors live in the learner, peers in the process group. A stop request to any rank makes all of
// them save and end after the same step, at most about 0.1 s later or at the next step.
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
  kStopped,  // On request (StopRequest): saved, to be gone on with.
};

class Trainer {
 public:
  struct Calls {
    std::function<Result<Dataset>()> load;  // On a thread; may take as long as a disk does.
    // Ends the process, from another thread, where this one is held in a disk for good.
    std::function<void(const Error&)> fail;
  };
  // All outlive the trainer.
  Trainer(const TrainConfig& config, const WorkerEnv& env, Calls calls, const Notifier& notifier,
          const Device& device);

  // kUnavailable: a peer is gone, start the world again. kRefused: another world or run owns the
  // checkpoints. kInvalid: the command line does not fit what is there. After an error the process
  // must end with _exit: a broken process group cannot be taken apart in bounded time.
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
  // What memory, and rank 0's disk, had to say. Filled in on a thread.
  struct Choice {
    TrainState asked;
    std::optional<MemorySnapshot> found;
    bool refuse = false;         // STOP lies in the directory, or PrepareOutputs refuses.
    std::string why_not_memory;  // For the log.
    Result<void> read;
    StartPlan plan;
    std::optional<Snapshot> loaded;
    std::vector<Tensor> given;  // --init-from, where nothing was loaded.
  };
  Result<void> LookForState(const std::shared_ptr<Choice>& choice);
  // None: the newest state in memory does not count, or there is none.
  Result<std::optional<StartPlan>> AgreeOnMemory(Choice& choice);
  Result<std::string> ChooseMemory(const NewestState& newest, const std::string& heading,
                                   Choice& choice);  // Rank 0.
  Result<StartPlan> AgreeOnDisk(const std::shared_ptr<Choice>& choice);
  Result<void> PrepareOutputs() const;               // Before anything is begun; may hang.
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
  void Remember(BlockFacts facts);
  void WaitForCopies() const;
  Result<void> Validate();
  Result<void> Report(std::uint64_t epoch, bool epoch_ended);
  // `at_end`: the training's state does not wait for its result, so a stop saves it meanwhile.
  Result<Evaluation> Evaluate(const Samples& samples, bool at_end);
  Result<void> Finish();
  Result<void> SayHowFarApart();
  Result<void> WriteEverything(bool save);  // Rank 0.
  Result<void> PublishResult(const Snapshot& last);
  Result<void> SayFinishedBefore(const TrainState& state);
  // `work` runs on a thread, and WaitForDisk returns what came of it. While it lasts this rank says
  // so, to people and to its launcher. A stop does not wait for it for long (disk_wait.h): then an
  // error, and `work` may go on until the process ends, so it holds what it uses beside the
  // trainer's. `bytes`: about so many are read or written.
  struct DiskTask {
    std::string what;  // "the last checkpoint (step 40) is being saved in 'ckpt'"
    std::uint64_t bytes = 0;
    std::function<Result<void>()> work;  // Empty: others have it.
    bool on_disk = true;                 // False: it is computed, and the messages say so.
  };
  Result<void> WaitForDisk(DiskTask task);
  // The same by all ranks, of which one or more have work: none is taken for gone meanwhile. Until
  // all is done, or one has failed; what a rank's own work came to is returned.
  Result<void> WaitForDiskTogether(DiskTask task);
  Result<void> Wait(DiskTask&& task, bool together);
  void LogStart(const StartPlan& plan) const;
  void LogDevice() const;
  Result<void> PrintResult(const TrainState& state);
  Result<void> WriteResult(const TrainState& state) const;
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
  std::optional<StopGuard> guard_;  // While there are steps, and of more than one rank.
  ReadWatch reads_;
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<Learner> learner_;              // Taken apart before the group.
  std::unique_ptr<MemorySnapshots> memory_;       // Or none, on all ranks alike.
  std::uint32_t state_from_ = 0;                  // The rank that sends it to all.
  std::unique_ptr<Checkpointing> checkpointing_;  // Rank 0 only.
  std::optional<ProgressPrinter> printer_;        // Rank 0 only.
  std::optional<MetricsFile> metrics_;            // Rank 0 only.
  CurveFile curves_;                              // Likewise.
  std::optional<SampleLog> sample_log_;
  std::optional<BatchFeed> feed_;  // Fills the learner's memory, so taken apart before it.

  Schedule schedule_;
  TrainState state_;  // Step and cursor in it are those of the last finished step.

  std::chrono::milliseconds skew_{0};  // Waited in each step (--skew).

  Profiler profiler_;
  std::optional<RunFiles> run_files_;  // Rank 0 only.
  bool best_ = false;                  // The step just taken has the best validation so far.
  bool save_asked_ = false;            // By SAVE.
  bool stopped_early_ = false;
  bool replays_ = false;  // Said that steps are replayed.

  std::uint64_t agree_at_ = 0;  // The step at which all ranks ask whether one should stop.
  std::uint64_t agreed_step_ = 0;
  std::chrono::steady_clock::time_point agreed_at_;
  bool stop_ = false;  // Agreed.
  std::uint64_t report_at_ = 0;
  std::uint64_t reported_step_ = 0;
  std::chrono::steady_clock::time_point reported_at_;
};

}  // namespace ddprun
