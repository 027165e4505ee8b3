#include "trainer/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/check.h"
#include "trainer/checkpoint/memory_start.h"
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
      last_handed_over_(std::chrono::steady_clock::now()) {
  // Not of a training that is to begin anew, or whose ranks part.
  if (config.run.memory_snapshots == "yes" && config.resume_mode != ResumeMode::kNever &&
      !config.run.no_sync) {
    memory_ = std::make_unique<MemorySnapshots>(env);
  }
}

Result<std::unique_ptr<Checkpointing>> Checkpointing::Open(const TrainConfig& config,
                                                           const WorkerEnv& env,
                                                           const std::string& model_description,
                                                           Say say) {
  std::unique_ptr<Checkpointing> checkpointing(
      new Checkpointing(config, env, model_description, std::move(say)));
  ASSIGN_OR_RETURN(const std::vector<std::string> warnings,
                   checkpointing->store_.Claim(checkpointing->writer_));
  for (const std::string& warning : warnings) {
    checkpointing->say_(LogLevel::kWarning, warning);
  }
  checkpointing->saver_ = std::make_unique<Saver>(checkpointing->store_, SaverOptions{});
  return checkpointing;
}

// A restart of the run that wrote it, as opposed to a new run of the same name.
bool Checkpointing::WrittenByThisRun(const TrainState& state) const {
  return state.run_id == env_.run_id && state.generation < env_.generation;
}

Result<StartPlan> Checkpointing::ChooseStart(const TrainState& asked,
                                             std::optional<Snapshot>& loaded) {
  CHECK(!copier_);
  StartPlan plan{.state = asked};
  if (!ChooseFromMemory(asked, plan, loaded)) {
    RETURN_IF_ERROR(ChooseFromDisk(asked, plan, loaded));
    handed_over_ = last_saved_;
  }
  base_ = store_.head();
  copier_ = std::make_unique<SnapshotCopier>(
      [this](Snapshot&& snapshot) { CHECK(saver_->Save(std::move(snapshot))); });
  return plan;
}

// What counts is decided against the head that the claim found: nobody else moves it any more.
bool Checkpointing::ChooseFromMemory(const TrainState& asked, StartPlan& plan,
                                     std::optional<Snapshot>& loaded) {
  if (!memory_) {
    return false;
  }
  const MemoryClaim claim{writer_, config_.checkpoint_dir.native(), store_.head(), store_.best()};
  const std::optional<MadeBy> made = claim.head ? WhoMade(*claim.head) : std::nullopt;
  std::vector<MemorySnapshot> found = memory_->Find();
  std::string why;
  std::erase_if(found, [&](const MemorySnapshot& memory) {
    const TrainState& state = memory.snapshot.state;
    const bool same =
        state.model == asked.model && state.model_description == asked.model_description;
    const std::optional<std::string> no =
        !same ? "it is of another model"
        : memory.starts >= kMostStarts
            ? "as many as " + std::to_string(memory.starts) + " starts from it came to nothing"
            : WhyNotFromMemory(memory.facts, state, claim);
    if (no && (!made || made->step < state.step)) {  // Else it is only older.
      why = "the state of step " + std::to_string(state.step) + " in memory is passed over: " + *no;
    }
    return no.has_value();
  });
  const MemorySnapshot* const newest = NewestOf(found);
  if (newest == nullptr) {
    if (!why.empty()) {
      plan.notes.push_back(why);
    }
    return false;
  }
  std::vector<std::string> notes;
  Result<TrainState> state = ContinueFrom(newest->snapshot.state, asked, notes);
  if (!state) {
    return false;  // The disk has the same training, and says why.
  }
  memory_->CountStart(newest->sequence);
  plan.state = *std::move(state);
  plan.kind = StartKind::kResume;
  plan.notes = std::move(notes);
  if (made) {
    last_saved_ = made->step;
  }
  plan.notes.push_back("going on from memory, without a disk; the newest checkpoint is " +
                       (last_saved_ ? "of step " + std::to_string(*last_saved_) : "none"));
  handed_over_ = newest->facts.handed_over;
  save_is_owed_ = handed_over_ && (!last_saved_ || *last_saved_ < *handed_over_);
  last_handed_over_ -=
      std::chrono::milliseconds(std::min<std::uint64_t>(newest->facts.unsaved_ms, kMostUnsaved));
  loaded = newest->snapshot;
  return true;
}

Result<void> Checkpointing::ChooseFromDisk(const TrainState& asked, StartPlan& plan,
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
  if (memory_) {
    memory_->WaitForCopy();
  }
}

bool Checkpointing::IsToRemember(std::uint64_t step) const {
  return memory_ && handed_over_ != step && memory_->Due(std::chrono::steady_clock::now());
}

void Checkpointing::Remember(SnapshotView view, TrainState state) {
  state.run_id = writer_.run_id;
  state.term = writer_.term;
  state.generation = writer_.generation;
  state.world_id = writer_.world_id;
  BlockFacts facts{
      .directory = config_.checkpoint_dir.native(), .base = base_, .handed_over = handed_over_};
  facts.unsaved_ms =
      static_cast<std::uint64_t>(std::chrono::floor<std::chrono::milliseconds>(
                                     std::chrono::steady_clock::now() - last_handed_over_)
                                     .count());
  const auto best = state.metrics.find(kBestStep);
  if (config_.run.keep_best && best != state.metrics.end()) {
    facts.best = static_cast<std::uint64_t>(best->second);
  }
  memory_->Begin(std::move(view), std::move(state), std::move(facts));
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
  WaitForCopy();
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
    return Error{ErrorKind::kSystem, "the last checkpoint (step " + std::to_string(step) +
                                         ") could not be saved in '" +
                                         config_.checkpoint_dir.string() +
                                         "'; started again, training goes on from the one before"};
  }
  return {};
}

Result<std::optional<LoadedCheckpoint>> Checkpointing::LoadBest() {
  copier_->Wait();
  saver_->Drain();  // The store is ours while the saver has nothing to do.
  return store_.LoadBest();
}

Result<void> Checkpointing::Close() {
  return saver_->Close();
}

void Checkpointing::End() {
  memory_.reset();
  copier_.reset();
  saver_.reset();
}

Result<void> Checkpointing::Poll() {
  for (const SaveResult& result : saver_->TakeResults()) {
    last_failed_ = result.error.has_value();
    if (!result.error) {
      last_saved_ = result.step;
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
