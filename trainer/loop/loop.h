// One worker's training, from joining its world to the final lines.
//
// loop.cc is all of it on one screen. Every rank takes the same steps on its share of each global
// batch. Only rank 0 prints, saves, and chooses the checkpoint to start from. A stop request to any
// rank makes all of them save and end after the same step, at most about 0.1 s later or at the next
// step.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/result.h"
#include "trainer/data/batch_feed.h"
#include "trainer/loop/reporting.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/start.h"
#include "trainer/loop/step_observer.h"
#include "trainer/loop/stopping.h"
#include "trainer/loop/training.h"
#include "trainer/loop/validation.h"

namespace ddprun {

class TrainingLoop {
 public:
  // The training outlives it. `load`: start.h.
  TrainingLoop(Training& training, std::function<Result<Dataset>()> load);

  // Called in each step before the loop's own observers, in the order of these calls.
  void Add(std::unique_ptr<StepObserver> observer);

  // Errors as in start.h. After an error the process must end with _exit: a broken process group
  // cannot be destroyed in bounded time.
  Result<TrainingEnd> Run();

 private:
  Result<TrainingEnd> RunToTheEnd();
  Result<void> Begin(const Start& start);
  Result<TrainingEnd> TakeSteps();
  Result<void> TakeStep();
  Part PartOf(const FeedPart& part) const;

  Training& training_;
  const std::function<Result<Dataset>()> load_;
  Saving saving_;
  Reporting reporting_;
  Validation validation_;
  Stopping stopping_;
  std::vector<std::unique_ptr<StepObserver>> added_;
  std::vector<StepObserver*> observers_;
  std::unique_ptr<BatchFeed> feed_;  // Fills the learner's memory, so it is destroyed before it.
};

}  // namespace ddprun
