#include "trainer/loop/loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "trainer/data/sampler.h"
#include "trainer/loop/finish.h"
#include "trainer/profiler/recorder.h"
#include "trainer/random.h"

namespace ddprun {

TrainingLoop::TrainingLoop(Training& training, std::function<Result<Dataset>()> load)
    : training_(training),
      load_(std::move(load)),
      saving_(training),
      reporting_(training, saving_),
      validation_(training),
      stopping_(training, saving_),
      observers_{&reporting_, &validation_, &saving_, &stopping_} {}

void TrainingLoop::Add(std::unique_ptr<StepObserver> observer) {
  observers_.insert(observers_.begin() + static_cast<std::ptrdiff_t>(added_.size()),
                    observer.get());
  added_.push_back(std::move(observer));
}

Result<TrainingEnd> TrainingLoop::Run() {
  Result<TrainingEnd> end = RunToTheEnd();
  for (StepObserver* const observer : observers_) {
    if (const Result<void> closed = observer->Close(end); !closed && end) {
      end = closed.error();
    }
  }
  training_.guard.reset();
  return end;
}

Result<TrainingEnd> TrainingLoop::RunToTheEnd() {
  training_.heartbeat.Phase(kJoinPhase);
  RETURN_IF_ERROR(JoinWorld(training_));
  training_.heartbeat.Phase(kLoadPhase);
  RETURN_IF_ERROR(LoadData(training_, load_));
  training_.heartbeat.Phase(kRestorePhase);
  RETURN_IF_ERROR(MakeLearner(training_));
  ASSIGN_OR_RETURN(const Start start, AgreeOnStart(training_, saving_));
  if (start.plan.kind == StartKind::kFinished) {
    RETURN_IF_ERROR(RepeatResult(training_, saving_, start.plan.state));
    return TrainingEnd::kFinished;
  }
  RETURN_IF_ERROR(Begin(start));
  return TakeSteps();
}

Result<void> TrainingLoop::Begin(const Start& start) {
  RETURN_IF_ERROR(StartFrom(start, training_));
  feed_ = MakeFeed(training_);
  if (start.plan.kind == StartKind::kFresh) {
    saving_.SaveFirst();
  }
  for (StepObserver* const observer : observers_) {
    RETURN_IF_ERROR(observer->BeforeFirstStep());
  }
  return {};
}

Result<TrainingEnd> TrainingLoop::TakeSteps() {
  while (!training_.Done()) {
    RETURN_IF_ERROR(TakeStep());
    if (training_.stop && !training_.Done()) {
      if (training_.guard) {
        training_.guard->Agreed();
      }
      RETURN_IF_ERROR(saving_.SaveAndStop());
      return TrainingEnd::kStopped;
    }
  }
  for (StepObserver* const observer : observers_) {
    RETURN_IF_ERROR(observer->AfterLastStep());
  }
  RETURN_IF_ERROR(Finish(training_, saving_));
  return TrainingEnd::kFinished;
}

Result<void> TrainingLoop::TakeStep() {
  using Clock = std::chrono::steady_clock;
  training_.group->TakeEntry();
  const Clock::time_point begin = Clock::now();
  training_.heartbeat.Phase(kDataPhase);
  for (StepObserver* const observer : observers_) {
    RETURN_IF_ERROR(observer->BeforeStep());
  }
  const FeedPart* part = nullptr;
  do {
    training_.heartbeat.Phase(kDataPhase);
    {
      const NamedRange range("data");
      const ReadWatch::Reading reading(training_.reads);
      ASSIGN_OR_RETURN(part, feed_->Next());
    }
    training_.heartbeat.Phase(kStepPhase);
    RETURN_IF_ERROR(training_.learner->Backward(PartOf(*part)));
  } while (!part->ends_step());
  const std::optional<Clock::time_point> entry = training_.group->TakeEntry();
  RETURN_IF_ERROR(training_.learner->Update(training_.LearningRate()));

  const Cursor cursor = CursorAfter(part->batch, training_.dataset.train.count);
  ++training_.state.step;
  training_.state.epoch = cursor.epoch;
  training_.state.samples_in_epoch = cursor.consumed;
  FinishedStep step{part->batch.epoch, cursor.epoch != part->batch.epoch, part->share, {}};
  if (entry) {
    step.work = std::chrono::ceil<std::chrono::microseconds>(*entry - begin);
  }
  for (StepObserver* const observer : observers_) {
    RETURN_IF_ERROR(observer->AfterStep(step));
  }
  return {};
}

Part TrainingLoop::PartOf(const FeedPart& part) const {
  const TrainState& state = training_.state;
  // These depend only on values that are equal on all ranks.
  const bool whole = part.batch.count ==
                     std::min<std::uint64_t>(state.global_batch, training_.dataset.train.count);
  const bool undivided = LargestShare(part.batch.count, training_.env.world_size) <=
                         static_cast<std::uint64_t>(training_.config.micro_batch);
  return {.slot = part.slot,
          .count = part.count,
          .global_count = part.batch.count,
          .seed = StepSeed(state.seed, state.step, training_.env.rank),
          .first = part.begins_step(),
          .last = part.ends_step(),
          .regular = whole && undivided};
}

}  // namespace ddprun
