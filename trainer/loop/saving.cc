#include "trainer/loop/saving.h"

#include <chrono>
#include <utility>

#include "trainer/loop/blocking_tasks.h"
#include "trainer/profiler/recorder.h"
#include "trainer/stop_request.h"

namespace ddprun {

void Saving::Open(const std::string& model_description) {
  if (training_.IsRankZero()) {
    checkpointing_ = std::make_unique<Checkpointing>(
        training_.config, training_.env, model_description,
        [this](LogLevel level, const std::string& text) { training_.Say(level, text); });
  }
  if (training_.config.GoesOnFromMemory()) {
    memory_ = std::make_unique<MemorySnapshots>(training_.env);
  }
}

Result<void> Saving::BeforeFirstStep() {
  if (checkpointing_ || memory_) {
    training_.learner->BeforeUpdate([this] { WaitForCopies(); });
  }
  if (checkpointing_ && save_first_) {
    checkpointing_->Save(training_.learner->View(), training_.StateNow(), /*best=*/false);
  }
  return {};
}

Result<void> Saving::AfterStep(const FinishedStep& step) {
  if (!checkpointing_) {
    return {};
  }
  const NamedRange range("checkpoint");
  RETURN_IF_ERROR(checkpointing_->Poll());
  const bool best = training_.best && training_.config.run.keep_best;
  // A save that was asked for may be of any step, so it waits until the saver has room.
  const bool asked = save_asked_ && (best || checkpointing_->HasRoom());
  const std::uint64_t number = training_.state.step;
  // The last step is saved with the training's result in it (finish.h).
  if (best || asked || (!training_.Done() && checkpointing_->Due(number, step.epoch_ended))) {
    checkpointing_->Save(training_.learner->View(), training_.StateNow(), best);
  }
  if (asked) {
    save_asked_ = false;
    training_.Say(LogLevel::kInfo, "saving step " + std::to_string(number) + ", as SAVE asked");
  }
  return {};
}

bool Saving::MayRemember() const {
  return memory_ && memory_->Ready(std::chrono::steady_clock::now()) &&
         (!checkpointing_ || checkpointing_->MayRemember(training_.state.step));
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
  if (checkpointing_) {
    const auto snapshot = std::make_shared<Snapshot>(MakeSnapshot());
    task.work = [this, snapshot, step] {
      Result<void> saved = checkpointing_->SaveNow(std::move(*snapshot));
      if (saved) {
        Log(LogLevel::kInfo, "stopping on request, saved at step " + step +
                                 ": started again, training continues from there");
      }
      checkpointing_->End();
      return saved;
    };
  }
  return AwaitTogether(training_, std::move(task));
}

void Saving::SaveIfAskedToStop() {
  if (!checkpointing_ || !StopRequest::Signal() ||
      checkpointing_->handed_over() == training_.state.step || !checkpointing_->HasRoom()) {
    return;
  }
  checkpointing_->Save(training_.learner->View(), training_.StateNow(), /*best=*/false);
  training_.Say(LogLevel::kInfo, "asked to stop: step " + std::to_string(training_.state.step) +
                                     " is being saved, and the evaluation continues");
}

Snapshot Saving::MakeSnapshot() const {
  WaitForCopies();  // Of an earlier View, which the next one makes invalid.
  return CopyNow(training_.learner->View(), training_.StateNow());
}

void Saving::WaitForCopies() const {
  if (checkpointing_) {
    checkpointing_->WaitForCopy();
  }
  if (memory_) {
    memory_->WaitForCopy();
  }
}

}  // namespace ddprun
