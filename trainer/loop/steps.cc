#include "trainer/loop/steps.h"

#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "common/files.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/loop/blocking_tasks.h"
#include "trainer/loop/start.h"
#include "trainer/profiler/recorder.h"
#include "trainer/results.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {
namespace {

// Rank 0. One after the other, so that each says by itself what is waited for.
Result<void> WriteEverything(Training& training, Saving& saving, bool save) {
  const TrainConfig& config = training.config;
  const auto last = std::make_shared<const Snapshot>(saving.MakeSnapshot());
  const std::uint64_t bytes = ByteCount(*last);
  const std::string directory = "'" + config.checkpoint_dir.native() + "'";
  if (save) {  // Before all that a full disk may refuse.
    RETURN_IF_ERROR(Await(
        training, {.what = "the last checkpoint (step " + std::to_string(training.state.step) +
                           ") is being saved in " + directory,
                   .bytes = 2 * bytes,  // One may be on its way already.
                   .work = [&saving, last] { return saving.SaveNow(Snapshot(*last)); }}));
  }
  if (const std::filesystem::path& path = config.dump_parameters; !path.empty()) {
    RETURN_IF_ERROR(
        Await(training, {.what = "the parameters are being written to '" + path.native() + "'",
                         .bytes = bytes,
                         .work = [path, last] { return WriteParameters(path, last->model); }}));
  }
  for (StepObserver* const observer : training.observers) {
    RETURN_IF_ERROR(observer->AfterLastSave(saving, last));
  }
  RETURN_IF_ERROR(Await(training, {.what = "the checkpoints in " + directory + " are being closed",
                                   .work = [&saving] { return saving.CloseDirectory(); }}));
  if (const std::filesystem::path& path = config.learning.result; !path.empty()) {
    RETURN_IF_ERROR(
        Await(training, {.what = "the result is being written to '" + path.native() + "'",
                         .work = [path, state = training.state, ranks = training.env.world_size] {
                           return WriteResult(path, state, ranks);
                         }}));
  }
  return {};
}

Result<void> PrintResult(Training& training) {
  const std::string lines = ResultLines(training.state);
  return Await(training, {.what = "the result is being written to standard output",
                          .bytes = lines.size(),
                          .work = [lines]() -> Result<void> {
                            (void)WriteAll(STDOUT_FILENO, lines, "standard output");
                            return {};
                          }});
}

// After the last step. All ranks evaluate; rank 0 writes and prints the result.
Result<void> EvaluateAndWrite(Training& training, Saving& saving) {
  std::map<std::string, double> metrics;
  std::vector<Scalar> curves;
  for (const auto& [name, set] : training.final_sets) {
    ASSIGN_OR_RETURN(const Evaluation result,
                     Evaluate(training, *set, [&saving] { saving.SaveIfAskedToStop(); }));
    metrics[name + "_samples"] = set->count;
    for (const auto& [metric, value] : result) {
      metrics[name + "_" + metric] = value;
      curves.push_back({"end/" + name + "_" + metric, value});
    }
  }
  if (!training.IsRankZero()) {
    return {};
  }
  training.heartbeat.Phase(kCheckpointPhase);
  TrainState& state = training.state;
  state.finished = true;
  const std::map<std::string, double> validation = ValidationMetrics(state.metrics);
  state.metrics = std::move(metrics);
  training.curves.Append(CurveRecord(state.step, curves));
  state.metrics.insert(validation.begin(), validation.end());
  if (training.stopped_early) {
    state.metrics[kStoppedEarly] = 1;
  }
  training.best = false;  // Was saved as such.
  RETURN_IF_ERROR(WriteEverything(training, saving, /*save=*/true));
  return PrintResult(training);
}

// The training was finished before this start, with this state: rank 0 writes and prints it again.
Result<void> RepeatResult(Training& training, Saving& saving, const TrainState& state) {
  if (!training.IsRankZero()) {
    return {};
  }
  training.state = state;
  RETURN_IF_ERROR(WriteEverything(training, saving, /*save=*/false));
  Log(LogLevel::kInfo,
      "this training is finished already: " + std::to_string(state.epoch) +
          (state.epoch == 1 ? " epoch, " : " epochs, ") + std::to_string(state.step) +
          (state.step == 1 ? " step, in " : " steps, in ") +
          training.config.checkpoint_dir.string() +
          ". Train on with more --epochs; start afresh with --resume=never or another "
          "--checkpoint-dir. Its result was:");
  return PrintResult(training);
}

}  // namespace

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
  ASSIGN_OR_RETURN(const StartPlan plan, AgreeOnStart(training_, saving_));
  if (plan.kind == StartKind::kFinished) {
    RETURN_IF_ERROR(RepeatResult(training_, saving_, plan.state));
    return false;
  }
  RETURN_IF_ERROR(StartFrom(plan, training_));
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
  const Cursor& cursor = part_->after;
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
  RETURN_IF_ERROR(EvaluateAndWrite(training_, saving_));
  return TrainingEnd::kFinished;
}

}  // namespace ddprun
