#include "trainer/loop/saving.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/slug.h"
#include "trainer/loop/blocking_tasks.h"
#include "trainer/profiler/recorder.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

// From a start from memory to its first checkpoint, where none is due before.
constexpr std::chrono::seconds kOwed{10};

}  // namespace

MemorySnapshots* Saving::OpenMemory() {
  if (training_.config.GoesOnFromMemory()) {
    memory_ = std::make_unique<MemorySnapshots>(training_.env);
  }
  return memory_.get();
}

Result<ChosenStart> Saving::Choose(const TrainState& asked,
                                   const std::optional<Remembered>& remembered) {
  CHECK(!store_);
  last_handed_over_ = std::chrono::steady_clock::now();
  store_.emplace(RealFileSystem(),
                 CheckpointConfig{.directory = training_.config.checkpoint_dir,
                                  .keep_last = static_cast<std::size_t>(training_.config.keep_last),
                                  .model = training_.config.model,
                                  .model_description = asked.model_description,
                                  .alive = {}});
  const WorkerEnv& env = training_.env;
  ASSIGN_OR_RETURN(const std::vector<std::string> warnings,
                   store_->Claim(MakeWriter(env.run_id.empty() ? "alone" : env.run_id, env.term,
                                            env.generation, env.world_id)));
  for (const std::string& warning : warnings) {
    training_.Say(LogLevel::kWarning, warning);
  }
  RunFiles& files = training_.run_files.emplace(training_.config.checkpoint_dir);
  saver_ = std::make_unique<Saver>(*store_, SaverOptions{.look = [&files] { files.Look(); }});
  ASSIGN_OR_RETURN(ChosenStart start, ChooseStart(training_.config, *store_, asked, remembered));
  last_saved_ = start.last_saved;
  handed_over_ = start.last_saved;
  begins_ = start.plan.kind == StartKind::kFresh;
  save_is_owed_ = start.plan.kind == StartKind::kFromMemory;
  return start;
}

Result<void> Saving::BeforeFirstStep() {
  if (training_.IsRankZero() || memory_) {
    training_.learner->BeforeUpdate([this] { WaitForCopies(); });
  }
  if (begins_) {
    Save(/*best=*/false);
  }
  return {};
}

Result<void> Saving::AfterStep(const FinishedStep& step) {
  if (!training_.IsRankZero()) {
    return {};
  }
  const NamedRange range("checkpoint");
  RETURN_IF_ERROR(Poll());
  const bool best = training_.best && training_.config.run.keep_best;
  // A save that was asked for may be of any step, so it waits until the saver has room.
  const bool asked = save_asked_ && (best || saver_->HasRoom());
  // The last step is saved with the training's result in it (steps.cc).
  if (best || asked || (!training_.Done() && Due(step.epoch_ended))) {
    Save(best);
  }
  if (asked) {
    save_asked_ = false;
    training_.Say(LogLevel::kInfo,
                  "saving step " + std::to_string(training_.state.step) + ", as SAVE asked");
  }
  return {};
}

bool Saving::MayRemember() const {
  return memory_ && memory_->Ready(std::chrono::steady_clock::now()) && !best_unsaved_ &&
         handed_over_ != training_.state.step;
}

// Only rank 0's buffers count, so that what others have is not the state.
void Saving::Remember() {
  if (training_.IsRankZero() || !training_.learner->HasBuffers()) {
    const NamedRange range("checkpoint");
    memory_->Begin(training_.learner->View(), training_.StateNow());
  }
}

Result<void> Saving::SaveAndStop() {
  training_.heartbeat.Phase(kCheckpointPhase);
  const std::string step = std::to_string(training_.state.step);
  BlockingTask task{.what = "the checkpoint to continue from (step " + step +
                            ") is being saved in '" + training_.config.checkpoint_dir.native() +
                            "'",
                    // Another save may still be under way.
                    .bytes = 2 * training_.learner->StateBytes()};
  if (training_.IsRankZero()) {
    const auto snapshot = std::make_shared<Snapshot>(MakeSnapshot());
    task.work = [this, snapshot, step] {
      Result<void> saved = SaveNow(std::move(*snapshot));
      if (saved) {
        Log(LogLevel::kInfo,
            "stopping on request, saved at step " + step + ": the next start continues from there");
      }
      saver_.reset();  // Its threads may wait for the disk.
      return saved;
    };
  }
  return AwaitTogether(training_, std::move(task));
}

void Saving::SaveIfAskedToStop() {
  if (!training_.IsRankZero() || !StopRequest::Signal() || handed_over_ == training_.state.step ||
      !saver_->HasRoom()) {
    return;
  }
  Save(/*best=*/false);
  training_.Say(LogLevel::kInfo, "asked to stop: step " + std::to_string(training_.state.step) +
                                     " is being saved, and the evaluation continues");
}

Snapshot Saving::MakeSnapshot() const {
  WaitForCopies();  // Of an earlier View, which the next one makes invalid.
  return CopyNow(training_.learner->View(), training_.StateNow());
}

Result<void> Saving::SaveNow(Snapshot&& snapshot) {
  saver_->Drain();
  RETURN_IF_ERROR(Poll());
  const std::uint64_t step = snapshot.state.step;
  CHECK(saver_->Save(std::move(snapshot)));
  saver_->Drain();
  RETURN_IF_ERROR(Poll(/*last=*/true));
  if (last_failure_) {
    const char* const next = last_saved_
                                 ? "; the next start continues from the checkpoint before it"
                                 : "; no earlier checkpoint exists: the next start begins anew";
    const std::string what =
        "the last checkpoint (step " + std::to_string(step) + ") could not be saved in '" +
        training_.config.checkpoint_dir.string() + "': " + last_failure_->message;
    return Error{ErrorKind::kSystem, Continue(what, next)};
  }
  return {};
}

Result<std::optional<LoadedCheckpoint>> Saving::LoadBest() {
  saver_->Drain();  // The store is ours while the saver has nothing to do.
  RETURN_IF_ERROR(Poll());
  return store_->LoadBest();
}

Result<void> Saving::CloseDirectory() {
  Result<void> closed = saver_->Close();
  saver_.reset();
  return closed;
}

bool Saving::Due(bool epoch_ended) const {
  const std::uint64_t step = training_.state.step;
  const CheckpointInterval& interval = training_.config.checkpoint_interval;
  const auto since = std::chrono::steady_clock::now() - last_handed_over_;
  return epoch_ended || (interval.steps && step % *interval.steps == 0) ||
         (interval.time && since >= *interval.time) || (save_is_owed_ && since >= kOwed);
}

void Saving::Save(bool best) {
  SnapshotView view = training_.learner->View();
  TrainState state = training_.StateNow();
  last_handed_over_ = std::chrono::steady_clock::now();
  handed_over_ = state.step;
  save_is_owed_ = false;
  if (best) {
    best_unsaved_ = state.step;
  }
  if (!saver_->Save(std::move(view), std::move(state), best) && !skipped_) {
    skipped_ = true;
    training_.Say(LogLevel::kWarning,
                  "skipping the checkpoint of step " + std::to_string(training_.state.step) +
                      ": the disk is too slow for --checkpoint-every (further skips are not "
                      "reported) [checkpoint-skipped]");
  }
}

Result<void> Saving::Poll(bool last) {
  for (const SaveResult& result : saver_->TakeResults()) {
    if (!result.report) {
      last_failure_ = result.report.error();
      if (!last && last_failure_->kind != ErrorKind::kRefused) {
        training_.Say(LogLevel::kError, Continue(last_failure_->message, "; training continues"));
      }
      continue;
    }
    last_failure_.reset();
    last_saved_ = result.step;
    if (best_unsaved_ == result.step) {
      best_unsaved_.reset();
    }
    for (const std::string& warning : result.report->warnings) {
      training_.Say(LogLevel::kWarning, warning);
    }
  }
  if (const std::optional<Error> fenced = saver_->fenced()) {
    return *fenced;
  }
  return {};
}

void Saving::WaitForCopies() const {
  if (saver_) {
    saver_->WaitForCopy();
  }
  if (memory_) {
    memory_->WaitForCopy();
  }
}

}  // namespace ddprun
