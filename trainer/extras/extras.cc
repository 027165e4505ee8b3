#include "trainer/extras/extras.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/format.h"
#include "trainer/disk/line_file.h"
#include "trainer/extras/publishing.h"
#include "trainer/loop/blocking_tasks.h"
#include "trainer/loop/training.h"
#include "trainer/profiler/memory.h"
#include "trainer/profiler/profiler.h"

namespace ddprun {
namespace {

// --profile. A recorded step lasts until the next one begins.
class Profile final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> BeforeFirstStep() override {
    const RunOptions& run = training_.config.run;
    ASSIGN_OR_RETURN(profiler_, Profiler::Open(run.profile, run.schedule, training_.env));
    SayMemory("memory of a rank: " + MemoryEstimate(training_.learner->View()) + "; ",
              " before the first step");
    return {};
  }

  Result<void> BeforeStep() override {
    EndStep();
    profiler_->BeginStep();
    in_step_ = true;
    return {};
  }

  Result<void> AfterLastStep() override {
    EndStep();
    profiler_->Stop();
    SayMemory("memory of this rank after the last step: ", "");
    return {};
  }

  // The trace is made now that everything is saved, which matters more.
  Result<void> Close(const Result<TrainingEnd>& end) override {
    if (!profiler_) {
      return {};
    }
    Result<void> together;
    if (end) {
      EndStep();
      training_.heartbeat.Phase(kProfilePhase);
      profiler_->Finish();
      if (*end == TrainingEnd::kStopped) {  // When one rank ends, its launcher stops the others.
        together = AwaitTogether(training_, {});
      }
    }
    if (const Result<void> written = profiler_->Flush(); !written) {
      training_.Say(LogLevel::kWarning, written.error().message);
    }
    return together;
  }

 private:
  void EndStep() {
    if (!in_step_) {
      return;
    }
    in_step_ = false;
    if (profiler_->MakesTrace()) {
      training_.heartbeat.Phase(kProfilePhase);
    }
    profiler_->EndStep();
  }

  void SayMemory(const std::string& before, const std::string& after) {
    if (training_.IsRankZero()) {
      training_.Say(LogLevel::kInfo, before + MemoryMeasured() + after);
    }
  }

  std::optional<Profiler> profiler_;
  bool in_step_ = false;
};

// --skew: makes each step of this rank longer.
class Skewed final : public StepObserver {
 public:
  Skewed(Training& training, std::chrono::milliseconds by) : StepObserver(training), by_(by) {}

  Result<void> BeforeStep() override {
    const NamedRange range("skew");
    std::this_thread::sleep_for(by_);
    return {};
  }

 private:
  const std::chrono::milliseconds by_;
};

// --sample-log: which samples each step used, for people who check. One file per generation and
// rank, one JSON object per step:
//
//   {"epoch":0,"step":1,"samples":[5,1022,...]}
//
// A line is handed over when its step is finished on this rank, and holds up no step, whatever the
// disk does (line_file.h): of a rank that is killed the lines that wait are missing. Steps that a
// later generation repeats are in its file again: those of the generation whose checkpoint was
// resumed count up to that checkpoint's step.
class LoggedSamples final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> BeforeFirstStep() override {
    const WorkerEnv& env = training_.env;
    const std::string name = "generation-" + std::to_string(env.generation.value) + ".rank-" +
                             std::to_string(env.rank) + ".jsonl";
    ASSIGN_OR_RETURN(
        lines_,
        LineFile::Open(training_.config.sample_log / name,
                       {.what = "sample log", .flag = "--sample-log", .make_directory = true}));
    return {};
  }
  Result<void> AfterStep(const FinishedStep& step) override {
    const nlohmann::ordered_json line = {
        {"epoch", step.epoch}, {"step", training_.state.step}, {"samples", step.samples}};
    lines_.Append(line.dump() + "\n");
    return {};
  }
  Result<void> Close(const Result<TrainingEnd>& /*end*/) override {
    lines_.Finish();
    return {};
  }

 private:
  LineFile lines_;
};

// --no-sync: says how far the ranks' parameters are apart at the end.
class Distances final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> AfterLastStep() override {
    training_.heartbeat.Phase(kEvaluatedPhase);
    std::vector<double> distances(training_.env.world_size, 0);
    ASSIGN_OR_RETURN(distances[training_.env.rank], training_.learner->DistanceFromRankZero());
    RETURN_IF_ERROR(training_.group->Sum(distances));
    for (std::uint32_t rank = 1; training_.IsRankZero() && rank < distances.size(); ++rank) {
      training_.Say(
          LogLevel::kInfo,
          Format("after %llu steps rank %u's parameters differ from rank 0's by up to %.3g",
                 static_cast<unsigned long long>(training_.state.step), rank, distances[rank]));
    }
    return {};
  }
};

// --init-from: parameters of an older training.
class BegunFrom final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> ReadFreshState() override {
    ASSIGN_OR_RETURN(given_, ReadParameters(RealFileSystem(), training_.config.run.init_from));
    return {};
  }
  Result<void> TakeFreshState(std::vector<std::string>& notes) override {
    const RunOptions& run = training_.config.run;
    const std::vector<Tensor> given = std::move(given_);
    Snapshot mine = CopyNow(training_.learner->View(), {});
    ASSIGN_OR_RETURN(const TransferReport report,
                     Transfer(given, run.init_strict == "yes", mine.model));
    notes.push_back("parameters from '" + run.init_from.native() + "': " + Describe(report));
    return training_.learner->CopyFrom(mine);
  }

 private:
  std::vector<Tensor> given_;
};

// --publish: parameters of the best checkpoint where best ones are kept, else the last.
class Published final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> AfterLastSave(Saving& saving, const std::shared_ptr<const Snapshot>& last) override {
    const std::string directory = training_.config.run.publish.native();
    return Await(training_,
                 {.what = "the model is being published in '" + directory + "'",
                  .bytes = 2 * ByteCount(*last),
                  .work = [this, &saving, last] { return PublishResult(saving, *last); }});
  }

 private:
  Result<void> PublishResult(Saving& saving, const Snapshot& last) {
    const RunOptions& run = training_.config.run;
    Snapshot snapshot = last;
    if (run.keep_best) {
      Result<std::optional<LoadedCheckpoint>> best = saving.LoadBest();
      if (!best && best.error().kind != ErrorKind::kSystem) {  // Still so after a restart.
        return Error{
            ErrorKind::kRefused,
            "the best checkpoint is broken, and nothing was published: " + best.error().message +
                ". The training itself is finished and saved. To publish the parameters of the "
                "last step, start it again without --keep-best"};
      }
      RETURN_IF_ERROR(best);
      if (*best) {
        snapshot = std::move((*best)->snapshot);
      }
    }
    RETURN_IF_ERROR(Publish(RealFileSystem(), run.publish, snapshot.model, snapshot.state));
    Log(LogLevel::kInfo, "published the parameters of step " + std::to_string(snapshot.state.step) +
                             " in " + run.publish.native());
    return {};
  }
};

}  // namespace

void AddExtras(Training& training, TrainingSteps& steps) {
  const RunOptions& run = training.config.run;
  if (!run.profile.empty()) {
    steps.Add(std::make_unique<Profile>(training));
  }
  std::chrono::milliseconds by{0};
  for (const Skew& skew : run.skews) {
    by = skew.rank == training.env.rank ? skew.by : by;
  }
  if (by.count() > 0) {
    steps.Add(std::make_unique<Skewed>(training, by));
  }
  if (!training.config.sample_log.empty()) {
    steps.Add(std::make_unique<LoggedSamples>(training));
  }
  if (run.no_sync && training.env.world_size > 1) {
    steps.Add(std::make_unique<Distances>(training));
  }
  if (!run.init_from.empty()) {
    steps.Add(std::make_unique<BegunFrom>(training));
  }
  if (!run.publish.empty()) {
    steps.Add(std::make_unique<Published>(training));
  }
}

}  // namespace ddprun
