#include "trainer/checkpointing.h"

#include <utility>

#include "common/check.h"
#include "common/slug.h"
#include "trainer/learning/early_stopping.h"

namespace ddprun {
namespace {

// From a start from memory to its first checkpoint, where none is due before.
constexpr std::chrono::seconds kOwed{10};

Writer WriterOf(const WorkerEnv& env) {
  const bool alone = env.run_id.empty();
  return MakeWriter(alone ? "alone" : env.run_id, env.term, env.generation, env.world_id);
}

CheckpointConfig StoreConfig(const TrainConfig& config, const std::string& model_description) {
  CheckpointConfig store;
  store.directory = config.checkpoint_dir;
  store.keep_last = static_cast<std::size_t>(config.keep_last);
  store.model = config.model;
  store.model_description = model_description;
  return store;
}

}  // namespace

Checkpointing::Checkpointing(const TrainConfig& config, const WorkerEnv& env,
                             const std::string& model_description, Say say)
    : config_(config),
      env_(env),
      say_(std::move(say)),
      writer_(WriterOf(env)),
      store_(RealFileSystem(), StoreConfig(config, model_description)),
      last_handed_over_(std::chrono::steady_clock::now()) {}

// A restart of the run that wrote it, as opposed to a new run of the same name.
bool Checkpointing::WrittenByThisRun(const TrainState& state) const {
  return state.run_id == env_.run_id && state.generation < env_.generation;
}

Result<StartPlan> Checkpointing::Choose(const TrainState& asked,
                                        const std::optional<Remembered>& remembered,
                                        std::optional<Snapshot>& loaded) {
  CHECK(!copier_);
  ASSIGN_OR_RETURN(const std::vector<std::string> warnings, store_.Claim(writer_));
  for (const std::string& warning : warnings) {
    say_(LogLevel::kWarning, warning);
  }
  saver_ = std::make_unique<Saver>(store_, SaverOptions{});
  StartPlan plan{.state = asked};
  if (!remembered || !PlanFromMemory(asked, *remembered, plan)) {
    RETURN_IF_ERROR(Load(asked, plan, loaded));
  }
  plan.state.run_id = writer_.run_id;
  plan.state.term = writer_.term;
  plan.state.generation = writer_.generation;
  plan.state.world_id = writer_.world_id;
  plan.state.parent = store_.head() ? store_.head()->directory : "";
  handed_over_ = last_saved_;
  copier_ = std::make_unique<SnapshotCopier>(
      [this](Snapshot&& snapshot) { CHECK(saver_->Save(std::move(snapshot))); });
  return plan;
}

bool Checkpointing::PlanFromMemory(const TrainState& asked, const Remembered& remembered,
                                   StartPlan& plan) {
  const TrainState& state = remembered.state;
  const auto found = state.metrics.find(kBestStep);
  const std::optional<std::uint64_t> best =
      config_.run.keep_best && found != state.metrics.end()
          ? std::optional(static_cast<std::uint64_t>(found->second))
          : std::nullopt;
  const DiskHead disk{store_.head(), store_.best()};
  const std::optional<MadeBy> made = disk.head ? WhoMade(disk.head->directory) : std::nullopt;
  const bool same =
      state.model == asked.model && state.model_description == asked.model_description;
  const std::optional<std::string> why_not =
      same ? WhyNotFromMemory(state, best, writer_, disk) : "it is of another model";
  if (why_not) {
    if (!made || made->step < state.step) {  // Else it is only older.
      plan.notes.push_back("the state of step " + std::to_string(state.step) +
                           " in memory is ignored: " + *why_not);
    }
    return false;
  }
  std::vector<std::string> notes;
  Result<TrainState> goes_on = ContinueFrom(state, asked, notes);
  if (!goes_on) {
    return false;  // The disk has the same training, and says why it cannot continue.
  }
  plan = {.kind = StartKind::kFromMemory, .state = *std::move(goes_on), .notes = std::move(notes)};
  if (made) {
    last_saved_ = made->step;
  }
  save_is_owed_ = true;
  plan.notes.push_back("continuing from memory, where rank " + std::to_string(remembered.rank) +
                       " has the newest state; the newest checkpoint is " +
                       (last_saved_ ? "of step " + std::to_string(*last_saved_) : "none"));
  return true;
}

Result<void> Checkpointing::Load(const TrainState& asked, StartPlan& plan,
                                 std::optional<Snapshot>& loaded) {
  Result<LoadOutcome> outcome = store_.Load();
  const bool found = outcome && outcome->checkpoint;
  if (config_.resume_mode == ResumeMode::kNever &&
      !(found && WrittenByThisRun(outcome->checkpoint->snapshot.state))) {
    store_.StartAfresh();
    outcome = LoadOutcome{};
  }
  if (!outcome) {
    return std::move(outcome).error();
  }
  plan.notes.insert(plan.notes.end(), outcome->warnings.begin(), outcome->warnings.end());
  if (outcome->checkpoint) {
    Snapshot& snapshot = outcome->checkpoint->snapshot;
    ASSIGN_OR_RETURN(plan.state, ContinueFrom(snapshot.state, asked, plan.notes));
    plan.kind = StartKind::kResume;
    const bool early = config_.run.early_stop > 0 && plan.state.metrics.count(kStoppedEarly) > 0;
    if (plan.state.finished &&
        (early || plan.state.epoch >= static_cast<std::uint64_t>(config_.epochs))) {
      plan.kind = StartKind::kFinished;
    }
    last_saved_ = snapshot.state.step;
    loaded = std::move(snapshot);
  } else if (config_.resume_mode == ResumeMode::kMust) {
    return Error{ErrorKind::kInvalid, "--resume=must, but there is no checkpoint in '" +
                                          config_.checkpoint_dir.string() + "' [no-checkpoint]"};
  }
  return {};
}

void Checkpointing::WaitForCopy() {
  copier_->WaitForCopy();
}

bool Checkpointing::MayRemember(std::uint64_t step) const {
  return !best_unsaved_ && handed_over_ != step;
}

bool Checkpointing::Due(std::uint64_t step, bool epoch_ended) const {
  const CheckpointInterval& interval = config_.checkpoint_interval;
  const auto since = std::chrono::steady_clock::now() - last_handed_over_;
  return epoch_ended || (interval.steps && step % *interval.steps == 0) ||
         (interval.time && since >= *interval.time) || (save_is_owed_ && since >= kOwed);
}

bool Checkpointing::HasRoom() {
  copier_->Wait();
  return saver_->HasRoom();
}

void Checkpointing::Save(SnapshotView view, TrainState state, bool best) {
  last_handed_over_ = std::chrono::steady_clock::now();
  handed_over_ = state.step;
  save_is_owed_ = false;
  if (best) {
    best_unsaved_ = state.step;
  }
  copier_->Wait();
  std::optional<Snapshot> surpassed = best ? saver_->TakeQueued() : std::nullopt;
  if (surpassed) {
    copier_->Begin(std::move(view), std::move(state), std::move(surpassed));
  } else if (saver_->HasRoom()) {
    copier_->Begin(std::move(view), std::move(state), saver_->TakeSpent());
  } else if (!skipped_) {
    skipped_ = true;
    say_(LogLevel::kWarning, "the checkpoint of step " + std::to_string(state.step) +
                                 " is skipped: the disk is slower than --checkpoint-every asks for "
                                 "(further ones are not reported) [checkpoint-skipped]");
  }
}

Result<void> Checkpointing::SaveNow(Snapshot&& snapshot) {
  copier_->Wait();
  saver_->Drain();
  RETURN_IF_ERROR(Poll());
  const std::uint64_t step = snapshot.state.step;
  CHECK(saver_->Save(std::move(snapshot)));
  saver_->Drain();
  RETURN_IF_ERROR(Poll());
  if (!last_saved_ || *last_saved_ != step || last_failed_) {
    const char* const next = last_saved_ ? "started again, training continues from the one before"
                                         : "there is none before it: started again with nothing "
                                           "but this directory, training begins anew";
    return Error{ErrorKind::kSystem,
                 "the last checkpoint (step " + std::to_string(step) + ") could not be saved in '" +
                     config_.checkpoint_dir.string() + "'; " + next + " [checkpoint-space]"};
  }
  return {};
}

Result<std::optional<LoadedCheckpoint>> Checkpointing::LoadBest() {
  copier_->Wait();
  saver_->Drain();  // The store is ours while the saver has nothing to do.
  RETURN_IF_ERROR(Poll());
  return store_.LoadBest();
}

Result<void> Checkpointing::Close() {
  return saver_->Close();
}

void Checkpointing::End() {
  copier_.reset();
  saver_.reset();
}

Result<void> Checkpointing::Poll() {
  for (const SaveResult& result : saver_->TakeResults()) {
    last_failed_ = result.error.has_value();
    if (!result.error) {
      last_saved_ = result.step;
      if (best_unsaved_ == result.step) {
        best_unsaved_.reset();
      }
    } else if (result.error->kind != ErrorKind::kRefused) {
      say_(LogLevel::kError, Continue(result.error->message, "; training continues"));
    }
    for (const std::string& warning : result.warnings) {
      say_(LogLevel::kWarning, warning);
    }
  }
  if (const std::optional<Error> fenced = saver_->fenced()) {
    return *fenced;
  }
  return {};
}

}  // namespace ddprun
