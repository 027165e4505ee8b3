// The steps of a training, between the program that computes them and all that happens around them.
//
// Every rank takes the same steps on its share of each global batch. Only rank 0 prints, saves, and
// chooses the checkpoint to start from. A stop request to any rank makes all of them save and end
// after the same step, at most about 0.1 s later or at the next step.
//
//   Run(Begin -> (NextPart..., EndStep) while MoreSteps -> Finish)
//
// All ranks make the same calls. After an error no other may follow, and the process must end with
// _exit: a broken process group cannot be destroyed in bounded time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/result.h"
#include "trainer/data/batch_feed.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/reporting.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/stopping.h"
#include "trainer/loop/training.h"

namespace ddprun {

class TrainingSteps {
 public:
  // The training outlives it.
  explicit TrainingSteps(Training& training);

  // Called in each step before the loop's own observers, in the order of these calls.
  void Add(std::unique_ptr<StepObserver> observer);

  // Joins the world, calls `train`, and closes all observers, whatever came before. Returns the end
  // of `train`, or the first error. Errors as in start.h.
  Result<TrainingEnd> Run(const std::function<Result<TrainingEnd>()>& train);

  // Gives the learner the state that all ranks start from. `make_feed` is called then, and gives
  // this rank's samples from there on. The learner is made by now, and the number of samples known.
  // False: the training was finished before this start, and rank 0 has written its result again.
  Result<bool> Begin(const std::function<Result<std::unique_ptr<BatchFeed>>()>& make_feed);

  // Whether to take another step.
  bool MoreSteps() const { return !training_.Done() && !training_.stop; }
  // The samples of the next part of a step. Valid until the next call.
  Result<const FeedPart*> NextPart();
  // The parameters have been updated from all parts of a step.
  Result<void> EndStep();

  // No step comes: final evaluations and the result, or the checkpoint to continue from.
  Result<TrainingEnd> Finish();

 private:
  Training& training_;
  Saving saving_;
  Reporting reporting_;
  Stopping stopping_;
  std::optional<Validation> validation_;  // --validate-every
  std::vector<std::unique_ptr<StepObserver>> added_;
  std::unique_ptr<BatchFeed> feed_;  // May fill the learner's memory: destroyed before it.
  const FeedPart* part_ = nullptr;
  std::chrono::steady_clock::time_point step_began_;
};

}  // namespace ddprun
