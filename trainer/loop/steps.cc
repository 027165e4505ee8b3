#include "trainer/loop/steps.h"

#include <utility>

#include "trainer/data/sampler.h"
#include "trainer/loop/finish.h"
#include "trainer/loop/start.h"
#include "trainer/profiler/recorder.h"

namespace ddprun {

TrainingSteps::TrainingSteps(Training& training)
    : training_(training),
      saving_(training),
      reporting_(training, saving_),
      stopping_(training, saving_) {
  training.observers = {&reporting_, &saving_, &stopping_};
  if (training.config.run.validate_every > 0) {
    training.observers.insert(training.observers.begin() + 1, &validation_.emplace(training));
  }
}

void TrainingSteps::Add(std::unique_ptr<StepObserver> observer) {
  training_.observers.insert(
      training_.observers.begin() + static_cast<std::ptrdiff_t>(added_.size()), observer.get());
  added_.push_back(std::move(observer));
}

Result<TrainingEnd> TrainingSteps::Run(const std::function<Result<TrainingEnd>()>& train) {
  training_.heartbeat.Phase(kJoinPhase);
  Result<TrainingEnd> end = TrainingEnd::kFinished;
  if (const Result<void> joined = JoinWorld(training_)) {
    training_.heartbeat.Phase(kLoadPhase);
    end = train();
  } else {
    end = joined.error();
  }
  for (StepObserver* const observer : training_.observers) {
    if (const Result<void> closed = observer->Close(end); !closed && end) {
      end = closed.error();
    }
  }
  training_.guard.reset();
  return end;
}

Result<bool> TrainingSteps::Begin(
    const std::function<Result<std::unique_ptr<BatchFeed>>()>& make_feed) {
  ASSIGN_OR_RETURN(const Start start, AgreeOnStart(training_, saving_));
  if (start.plan.kind == StartKind::kFinished) {
    RETURN_IF_ERROR(RepeatResult(training_, saving_, start.plan.state));
    return false;
  }
  RETURN_IF_ERROR(StartFrom(start, training_));
  ASSIGN_OR_RETURN(feed_, make_feed());
  for (StepObserver* const observer : training_.observers) {
    RETURN_IF_ERROR(observer->BeforeFirstStep());
  }
  return true;
}

Result<const FeedPart*> TrainingSteps::NextPart() {
  if (part_ == nullptr || part_->ends_step()) {
    training_.group->TakeEntry();
    step_began_ = std::chrono::steady_clock::now();
    training_.heartbeat.Phase(kDataPhase);
    for (StepObserver* const observer : training_.observers) {
      RETURN_IF_ERROR(observer->BeforeStep());
    }
  }
  training_.heartbeat.Phase(kDataPhase);
  const NamedRange range("data");
  {
    const ReadWatch::Reading reading(training_.reads);
    ASSIGN_OR_RETURN(part_, feed_->Next());
  }
  training_.heartbeat.Phase(kStepPhase);
  return part_;
}

Result<void> TrainingSteps::EndStep() {
  const Cursor cursor = CursorAfter(part_->batch, training_.dataset.train.count);
  ++training_.state.step;
  training_.state.epoch = cursor.epoch;
  training_.state.samples_in_epoch = cursor.consumed;
  FinishedStep step{part_->batch.epoch, cursor.epoch != part_->batch.epoch, part_->share, {}};
  // Until it began its first all-reduce: then it waits for its peers.
  if (const auto entry = training_.group->TakeEntry()) {
    step.work = std::chrono::ceil<std::chrono::microseconds>(*entry - step_began_);
  }
  for (StepObserver* const observer : training_.observers) {
    RETURN_IF_ERROR(observer->AfterStep(step));
  }
  return {};
}

Result<TrainingEnd> TrainingSteps::Finish() {
  if (training_.stop && !training_.Done()) {
    if (training_.guard) {
      training_.guard->Agreed();
    }
    RETURN_IF_ERROR(saving_.SaveAndStop());
    return TrainingEnd::kStopped;
  }
  for (StepObserver* const observer : training_.observers) {
    RETURN_IF_ERROR(observer->AfterLastStep());
  }
  RETURN_IF_ERROR(ddprun::Finish(training_, saving_));
  return TrainingEnd::kFinished;
}

}  // namespace ddprun
