// Which states of a training outlive it: checkpoints, which rank 0 makes, and the copy that each
// node's first rank leaves in memory.
//
// The loop waits for no disk: both copy the state beside the next forward and backward. Files and
// their safety are the checkpoint library's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/result.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/loop/training.h"
#include "trainer/memory_snapshots.h"
#include "trainer/start_plan.h"

namespace ddprun {

class Saving final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  // Once the learner is made. Null: on no rank (--memory-snapshots).
  MemorySnapshots* OpenMemory();
  // Rank 0, on a thread: claims the directory, so that no other process moves what is there, and
  // decides where this training continues. kRefused: another run uses the directory, or another
  // world took over.
  Result<ChosenStart> Choose(const TrainState& asked, const std::optional<Remembered>& remembered);

  // Saves the first checkpoint of a training that begins afresh: a directory that cannot be written
  // shows at once.
  Result<void> BeforeFirstStep() override;
  // Saves what is due.
  Result<void> AfterStep(const FinishedStep& step) override;

  // The step of the newest checkpoint. Rank 0.
  std::optional<std::uint64_t> last_saved() const { return last_saved_; }
  // A save of the next state for which the saver has room, whatever step that is. Rank 0.
  void AskToSave() { save_asked_ = true; }
  // Whether the state of this step may be left in memory, as far as this rank knows: not while it
  // is being saved, and not beyond a best one that is not, without which none counts.
  bool MayRemember() const;
  void Remember();

  // All ranks have agreed to stop after this step. They wait for rank 0's save: when the first rank
  // ends, its node's launcher stops those beside it.
  Result<void> SaveAndStop();
  // While the training is evaluated at its end. That may take longer than a stop may last, and a
  // restart need not train again for it. Does nothing but on rank 0.
  void SaveIfAskedToStop();
  Snapshot MakeSnapshot() const;

  // These are for rank 0, on a thread. Writes this one before it returns; an error if that failed.
  Result<void> SaveNow(Snapshot&& snapshot);
  // The checkpoint with the best validation; none: there is none.
  Result<std::optional<LoadedCheckpoint>> LoadBest();
  // This run is done with the directory. Nothing is saved any more.
  Result<void> CloseDirectory();

 private:
  // Whether a save is due after the last step.
  bool Due(bool epoch_ended) const;
  // In the background, the copy too: WaitForCopies before anything viewed changes. Never waits for
  // the disk. Skipped, like a bus that is full, while an earlier one still waits; the best one so
  // far takes that one's place instead.
  void Save(bool best);
  // Says what became of saves. The only error: another world has taken over (kRefused). A failed
  // save is said, and training continues with the older checkpoints, unless it was the last.
  Result<void> Poll(bool last = false);
  void WaitForCopies() const;

  std::unique_ptr<MemorySnapshots> memory_;
  bool save_asked_ = false;
  std::optional<CheckpointStore> store_;  // Rank 0, and all below.
  std::unique_ptr<Saver> saver_;          // From the claim on: this run is seen to live.
  std::chrono::steady_clock::time_point last_handed_over_;
  std::optional<std::uint64_t> last_saved_;
  std::optional<std::uint64_t> handed_over_;   // The step of the last one.
  std::optional<std::uint64_t> best_unsaved_;  // The step of a best one that is not saved yet.
  bool begins_ = false;                        // Afresh.
  bool save_is_owed_ = false;                  // Begun from memory, and not saved since.
  std::optional<Error> last_failure_;          // None: the last save succeeded.
  bool skipped_ = false;
};

}  // namespace ddprun
