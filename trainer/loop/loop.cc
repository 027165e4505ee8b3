#include "trainer/loop/loop.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "trainer/data/sampler.h"
#include "trainer/learning/model_learner.h"
#include "trainer/loop/model_start.h"

namespace ddprun {
namespace {

Part PartOf(const Training& training, const FeedPart& part) {
  const TrainState& state = training.state;
  // These depend only on values that are equal on all ranks.
  const bool whole =
      part.batch.count == std::min<std::uint64_t>(state.global_batch, training.dataset.train.count);
  const bool undivided = LargestShare(part.batch.count, training.env.world_size) <=
                         static_cast<std::uint64_t>(training.config.micro_batch);
  return {.slot = part.slot,
          .count = part.count,
          .global_count = part.batch.count,
          .seed = StepSeed(state.seed, state.step, training.env.rank),
          .first = part.begins_step(),
          .last = part.ends_step(),
          .regular = whole && undivided};
}

Result<void> TakeStep(Training& training, TrainingSteps& steps, ModelLearner& learner) {
  const FeedPart* part = nullptr;
  do {
    ASSIGN_OR_RETURN(part, steps.NextPart());
    RETURN_IF_ERROR(learner.Backward(PartOf(training, *part)));
  } while (!part->ends_step());
  RETURN_IF_ERROR(learner.Update(training.LearningRate()));
  return steps.EndStep();
}

}  // namespace

Result<TrainingEnd> TrainModel(Training& training, TrainingSteps& steps,
                               std::function<Result<Dataset>()> load) {
  RETURN_IF_ERROR(LoadData(training, std::move(load)));
  training.heartbeat.Phase(kRestorePhase);
  ASSIGN_OR_RETURN(ModelLearner* const learner, MakeLearner(training));
  ASSIGN_OR_RETURN(const bool begun, steps.Begin([&] { return MakeFeed(training, *learner); }));
  if (!begun) {
    return TrainingEnd::kFinished;
  }
  while (steps.MoreSteps()) {
    RETURN_IF_ERROR(TakeStep(training, steps, *learner));
  }
  return steps.Finish();
}

}  // namespace ddprun
