// Which states of a training outlive it: checkpoints, which rank 0 makes, and the copy that each
// node's first rank leaves in memory.
//
// The loop waits for no disk: both copy the state beside the next forward and backward.
#pragma once

#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/checkpointing.h"
#include "trainer/loop/step_observer.h"
#include "trainer/loop/training.h"
#include "trainer/memory_snapshots.h"

namespace ddprun {

class Saving final : public StepObserver {
 public:
  explicit Saving(Training& training) : training_(training) {}

  // Once the learner is made, before anything is read.
  void Open(const std::string& model_description);

  Checkpointing* checkpointing() { return checkpointing_.get(); }  // Null: not rank 0.
  MemorySnapshots* memory() { return memory_.get(); }  // Null: on no rank (--memory-snapshots).

  // The first checkpoint is saved before the first step: a directory that cannot be written shows
  // at once.
  void SaveFirst() { save_first_ = true; }
  Result<void> BeforeFirstStep() override;
  // Saves what is due.
  Result<void> AfterStep(const FinishedStep& step) override;

  // A save of the next state for which the saver has room, whatever step that is. Rank 0.
  void AskToSave() { save_asked_ = true; }
  // Whether the state of this step may be left in memory, as far as this rank knows.
  bool MayRemember() const;
  void Remember();

  // All ranks have agreed to stop after this step. They wait for rank 0's save: when the first rank
  // ends, its node's launcher stops those beside it.
  Result<void> SaveAndStop();
  // While the training is evaluated at its end. That may take longer than a stop may last, and a
  // restart need not train again for it. Does nothing but on rank 0.
  void SaveIfAskedToStop();
  Snapshot MakeSnapshot() const;

 private:
  void WaitForCopies() const;

  Training& training_;
  std::unique_ptr<MemorySnapshots> memory_;
  std::unique_ptr<Checkpointing> checkpointing_;
  bool save_first_ = false;
  bool save_asked_ = false;
};

}  // namespace ddprun
