#include "trainer/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/check.h"
#include "trainer/learning/early_stopping.h"

namespace ddprun {
namespace {

// A state that ends its worlds must not do so until the budget is spent: what is on the disk may
// not.
constexpr std::uint64_t kMostStarts = 3;
constexpr std::uint64_t kMostUnsaved = 1'000'000'000;  // Milliseconds; a lie is no overflow.

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

void Checkpointing::Look() {
  const Result<std::optional<FenceRecord>> read = store_.BeforeClaim(writer_);
  if (!read || !*read) {
    return;  // Where something is wrong the claim says so.
  }
  const FenceRecord& record = **read;
  seen_ = DiskHead{record.lineage.empty() ? std::nullopt : std::optional(record.lineage.front()),
                   record.best};
}

// A restart of the run that wrote it, as opposed to a new run of the same name.
bool Checkpointing::WrittenByThisRun(const TrainState& state) const {
  return state.run_id == env_.run_id && state.generation < env_.generation;
}

std::optional<StartPlan> Checkpointing::ChooseFromMemory(const TrainState& asked,
                                                         const BlockHeading& heading,
                                                         std::string& why) {
  if (!seen_) {
    return std::nullopt;  // The claim may find whatever it finds.
  }
  const auto& [facts, state] = heading;
  const std::optional<MadeBy> made = seen_->head ? WhoMade(*seen_->head) : std::nullopt;
  const bool same =
      state.model == asked.model && state.model_description == asked.model_description;
  const std::optional<std::string> no =
      !same ? "it is of another model"
      : facts.starts >= kMostStarts
          ? "as many as " + std::to_string(facts.starts) + " starts from it came to nothing"
          : WhyNotFromMemory(heading, writer_, *seen_);
  if (no && (!made || made->step < state.step)) {  // Else it is only older.
    why = "the state of step " + std::to_string(state.step) + " in memory is passed over: " + *no;
  }
  std::vector<std::string> notes;
  Result<TrainState> goes_on = ContinueFrom(state, asked, notes);
  if (no || !goes_on) {
    return std::nullopt;  // The disk has the same training, and says why it cannot go on.
  }
  StartPlan plan{.kind = StartKind::kResume, .state = *std::move(goes_on)};
  plan.notes = std::move(notes);
  if (made) {
    last_saved_ = made->step;
  }
  plan.notes.push_back("going on from memory, without a disk; the newest checkpoint is " +
                       (last_saved_ ? "of step " + std::to_string(*last_saved_) : "none"));
  handed_over_ = facts.handed_over;
  best_is_owed_ = OwesBest(heading, *seen_);
  save_is_owed_ = handed_over_ && (!last_saved_ || *last_saved_ < *handed_over_);
  last_handed_over_ -=
      std::chrono::milliseconds(std::min<std::uint64_t>(facts.unsaved_ms, kMostUnsaved));
  saver_ = std::make_unique<Saver>(store_, SaverOptions{},
                                   [this, heading] { return ClaimFor(heading); });
  MakeCopier();
  return plan;
}

// On the saver's thread. From here on nobody else moves the head: what it is now must be an
// ancestor of the state that this world has begun from, as the record was by which it was chosen.
Result<std::vector<std::string>> Checkpointing::ClaimFor(const BlockHeading& heading) {
  ASSIGN_OR_RETURN(std::vector<std::string> warnings, store_.Claim(writer_));
  base_ = store_.head();
  if (const std::optional<std::string> why =
          WhyNotFromMemory(heading, writer_, {base_, store_.best()})) {
    return Error{ErrorKind::kUnavailable,
                 "the state in memory that this world began from, of step " +
                     std::to_string(heading.state.step) + ", does not count any more, as '" +
                     config_.checkpoint_dir.native() + "' is claimed: " + *why +
                     "; nothing was saved, and started again it goes on from the disk"};
  }
  return warnings;
}

Result<StartPlan> Checkpointing::ChooseFromDisk(const TrainState& asked,
                                                std::optional<Snapshot>& loaded) {
  CHECK(!copier_);
  ASSIGN_OR_RETURN(const std::vector<std::string> warnings, store_.Claim(writer_));
  for (const std::string& warning : warnings) {
    say_(LogLevel::kWarning, warning);
  }
  saver_ = std::make_unique<Saver>(store_, SaverOptions{});
  StartPlan plan{.state = asked};
  RETURN_IF_ERROR(Load(asked, plan, loaded));
  handed_over_ = last_saved_;
  base_ = store_.head();
  MakeCopier();
  return plan;
}

void Checkpointing::MakeCopier() {
  copier_ = std::make_unique<SnapshotCopier>(
      [this](Snapshot&& snapshot) { CHECK(saver_->Save(std::move(snapshot))); });
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
                                          config_.checkpoint_dir.string() + "'"};
  }
  return {};
}

void Checkpointing::WaitForCopy() {
  copier_->Wait();
}

bool Checkpointing::MayRemember(std::uint64_t step) const {
  return saver_->claimed() && (best_unsaved_ ? best_unsaved_ == step : handed_over_ != step);
}

BlockFacts Checkpointing::Facts() const {
  const auto unsaved = std::chrono::steady_clock::now() - last_handed_over_;
  BlockFacts facts{.handed_over = handed_over_,
                   .unsaved_ms = static_cast<std::uint64_t>(
                       std::chrono::floor<std::chrono::milliseconds>(unsaved).count())};
  if (saver_->claimed() && base_) {
    facts.base = base_->digest;
  }
  return facts;
}

Result<void> Checkpointing::AwaitClaim() {
  saver_->Drain();
  return Poll();
}

bool Checkpointing::Due(std::uint64_t step, bool epoch_ended) const {
  const CheckpointInterval& interval = config_.checkpoint_interval;
  return epoch_ended || (interval.steps && step % *interval.steps == 0) ||
         (interval.time && std::chrono::steady_clock::now() - last_handed_over_ >= *interval.time);
}

bool Checkpointing::HasRoom() {
  copier_->Wait();
  return saver_->HasRoom();
}

void Checkpointing::Save(SnapshotView view, TrainState state, bool best) {
  last_handed_over_ = std::chrono::steady_clock::now();
  handed_over_ = state.step;
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
                                 "(said once)");
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
    const char* const next = last_saved_ ? "started again, training goes on from the one before"
                                         : "there is none before it: started again with nothing "
                                           "but this directory, training begins anew";
    return Error{ErrorKind::kSystem, "the last checkpoint (step " + std::to_string(step) +
                                         ") could not be saved in '" +
                                         config_.checkpoint_dir.string() + "'; " + next};
  }
  return {};
}

Result<std::optional<LoadedCheckpoint>> Checkpointing::LoadBest() {
  copier_->Wait();
  RETURN_IF_ERROR(AwaitClaim());  // The store is ours while the saver has nothing to do.
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
  for (const std::string& warning : saver_->TakeWarnings()) {
    say_(LogLevel::kWarning, warning);
  }
  for (const SaveResult& result : saver_->TakeResults()) {
    last_failed_ = result.error.has_value();
    if (!result.error) {
      last_saved_ = result.step;
      if (best_unsaved_ == result.step) {
        best_unsaved_.reset();
      }
    } else if (result.error->kind != ErrorKind::kRefused) {
      say_(LogLevel::kError, result.error->message + "; training goes on");
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
