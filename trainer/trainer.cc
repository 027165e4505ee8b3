#include "trainer/trainer.h"
#include "trainer/models/entries.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "common/log.h"
#include "trainer/data/entries.h"
#include "trainer/disk/disk_wait.h"
#include "trainer/profiler/memory.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMaxReport = 1e6;
constexpr double kAgreeInterval = 0.1;  // Seconds; agreeing costs a small all-reduce.

// A little less than the time that peers wait in a collective, so that this rank reports first.
std::optional<std::chrono::milliseconds> PatienceOfPeers(const TrainConfig& config,
                                                         const WorkerEnv& env) {
  const std::chrono::milliseconds patience = std::chrono::seconds(config.collective_timeout);
  return env.world_size > 1 ? std::optional(patience - patience / 8) : std::nullopt;
}

// Whether samples are read from files. Bundled data sets do not count: they are installed with the
// program, so they are hardly on a disk that hangs at times.
bool SamplesLieOnDisks(const TrainConfig& config) {
  const DatasetEntry& dataset = *FindDataset(config.dataset);
  return dataset.reads_files && config.data_root != BundledDatasetRoot(dataset.bundled);
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const WorkerEnv& env, Calls calls,
                 const Notifier& notifier, const Device& device)
    : config_(config),
      env_(env),
      calls_(std::move(calls)),
      model_(*FindModel(config.model)),
      device_(device),
      heartbeat_(notifier),
      reads_({.what = "samples of " + config.dataset + " are being read",
              .limit = PatienceOfPeers(config, env),
              .asked_to_stop = [] { return StopRequest::Signal().has_value(); },
              .alive = [this] { heartbeat_.Extend(); },
              .give_up = calls_.fail}) {}

Result<TrainingEnd> Trainer::Run() {
  Result<TrainingEnd> done = RunToTheEnd();
  if (printer_) {
    printer_->EndLine();
  }
  if (metrics_) {
    metrics_->Finish();
  }
  curves_.Finish();
  if (sample_log_) {
    sample_log_->Finish();
  }
  if (const Result<void> written = profiler_.Flush(); !written) {
    Log(LogLevel::kWarning, written.error().message);
  }
  return done;
}

Result<TrainingEnd> Trainer::RunToTheEnd() {
  heartbeat_.Phase(kJoinPhase);
  RETURN_IF_ERROR(JoinWorld());
  heartbeat_.Phase(kLoadPhase);
  RETURN_IF_ERROR(LoadData());
  heartbeat_.Phase(kRestorePhase);
  RETURN_IF_ERROR(MakeLearner());
  ASSIGN_OR_RETURN(const StartPlan plan, AgreeOnStart());
  if (plan.refusal) {
    return *plan.refusal;
  }
  if (plan.kind == StartKind::kFinished) {
    RETURN_IF_ERROR(SayFinishedBefore(plan.state));
    return TrainingEnd::kFinished;
  }
  RETURN_IF_ERROR(StartLearner(plan));
  StopRequest::Catch(env_.run_id.empty());
  if (env_.world_size > 1) {
    guard_.emplace(heartbeat_,
                   run_files_ ? [this] { return run_files_->StopsNow(); } : std::function<bool()>(),
                   SamplesLieOnDisks(config_) ? DiskWait::kStopPatience : std::chrono::seconds(0));
  }
  Result<TrainingEnd> end = TrainOn();
  guard_.reset();
  return end;
}

Result<TrainingEnd> Trainer::TrainOn() {
  while (!Done()) {
    RETURN_IF_ERROR(TakeStep());
    if (stop_ && !Done()) {
      if (guard_) {
        guard_->Agreed();
      }
      RETURN_IF_ERROR(SaveAndStop());
      FinishProfile();
      if (!config_.run.profile.empty()) {  // When one rank ends, its launcher stops the others.
        RETURN_IF_ERROR(WaitForDiskTogether({}));
      }
      return TrainingEnd::kStopped;
    }
  }
  RETURN_IF_ERROR(Finish());
  return TrainingEnd::kFinished;
}

Result<void> Trainer::TakeStep() {
  const FeedPart* part = nullptr;
  profiler_.BeginStep();
  group_->TakeEntry();
  const Clock::time_point begin = Clock::now();
  heartbeat_.Phase(kDataPhase);
  if (skew_.count() > 0) {
    const NamedRange range("skew");
    std::this_thread::sleep_for(skew_);
  }
  do {
    heartbeat_.Phase(kDataPhase);
    {
      const NamedRange range("data");
      const ReadWatch::Reading reading(reads_);
      ASSIGN_OR_RETURN(part, feed_->Next());
    }
    heartbeat_.Phase(kStepPhase);
    RETURN_IF_ERROR(learner_->Backward({.slot = part->slot,
                                        .count = part->count,
                                        .global_count = part->batch.count,
                                        .seed = StepSeed(state_.seed, state_.step, env_.rank),
                                        .first = part->begins_step(),
                                        .last = part->ends_step(),
                                        .regular = IsRegular(part->batch)}));
  } while (!part->ends_step());
  const std::optional<Clock::time_point> entry = group_->TakeEntry();
  RETURN_IF_ERROR(learner_->Update(LearningRate()));

  const GlobalBatch batch = part->batch;
  const Cursor cursor = CursorAfter(batch, dataset_.train.count);
  ++state_.step;
  state_.epoch = cursor.epoch;
  state_.samples_in_epoch = cursor.consumed;
  sample_log_->Append(batch.epoch, state_.step, part->share);
  const bool epoch_ended = cursor.epoch != batch.epoch;
  if (epoch_ended || state_.step >= report_at_) {
    RETURN_IF_ERROR(Report(batch.epoch, epoch_ended));
  }
  heartbeat_.Step(state_.step,
                  entry
                      ? std::optional(std::chrono::ceil<std::chrono::microseconds>(*entry - begin))
                      : std::nullopt);
  if (!replays_ && learner_->Replays()) {
    replays_ = true;
    if (IsRankZero()) {
      printer_->EndLine();
      Log(LogLevel::kInfo, "full steps are replayed from a CUDA graph, recorded at step " +
                               std::to_string(state_.step));
    }
  }
  RETURN_IF_ERROR(AfterStep(epoch_ended));
  if (profiler_.MakesTrace()) {
    heartbeat_.Phase(kProfilePhase);
  }
  profiler_.EndStep();
  return {};
}

Result<void> Trainer::AfterStep(bool epoch_ended) {
  const auto every = static_cast<std::uint64_t>(config_.run.validate_every);
  best_ = false;
  const bool validate = every > 0 && state_.step % every == 0;
  if (validate) {
    RETURN_IF_ERROR(Validate());
  }
  if (checkpointing_) {
    const NamedRange range("checkpoint");
    RETURN_IF_ERROR(SaveIfDue(epoch_ended));
  }
  // At once after a validation: the next one may begin before agree_at_.
  return validate || state_.step >= agree_at_ ? AgreeOnStop() : Result<void>();
}

// Depends only on values that are equal on all ranks.
bool Trainer::IsRegular(const GlobalBatch& batch) const {
  return batch.count == std::min<std::uint64_t>(state_.global_batch, dataset_.train.count) &&
         LargestShare(batch.count, env_.world_size) <=
             static_cast<std::uint64_t>(config_.micro_batch);
}

// As in Report: rank 0 puts into the same sum when to agree next.
Result<void> Trainer::AgreeOnStop() {
  double next = 0;
  if (IsRankZero()) {
    const double seconds = std::max(SecondsSince(agreed_at_), 1e-6);
    const auto steps = static_cast<double>(state_.step - agreed_step_);
    next = std::clamp(std::floor(steps / seconds * kAgreeInterval), 1.0, kMaxReport);
  }
  const RunFiles::Asked asked = run_files_ ? run_files_->Poll() : RunFiles::Asked{};
  save_asked_ = save_asked_ || asked.save || (IsRankZero() && StopRequest::TakeSave());
  // Whether one asks to stop, when to ask again, how many may not leave the state in memory now.
  std::array<double, 3> sums = {StopRequest::Signal() || asked.stop ? 1.0 : 0.0, next,
                                MayRemember() ? 0.0 : 1.0};
  RETURN_IF_ERROR(group_->Sum(sums));
  stop_ = sums[0] > 0;
  if (sums[2] == 0 && !stop_ && !Done()) {
    Remember();
  }
  agreed_step_ = state_.step;
  agreed_at_ = Clock::now();
  agree_at_ = state_.step + static_cast<std::uint64_t>(sums[1]);
  return {};
}

// The others wait for rank 0: when the first rank ends, its node's launcher stops those beside it.
Result<void> Trainer::SaveAndStop() {
  heartbeat_.Phase(kCheckpointPhase);
  const std::string step = std::to_string(state_.step);
  DiskTask task{.what = "the checkpoint to go on from (step " + step + ") is being saved in '" +
                        config_.checkpoint_dir.native() + "'",
                .bytes = 2 * learner_->StateBytes()};  // Another save may still be under way.
  if (IsRankZero()) {
    const auto snapshot = std::make_shared<Snapshot>(MakeSnapshot());
    task.work = [this, snapshot, step] {
      Result<void> saved = checkpointing_->SaveNow(std::move(*snapshot));
      if (saved) {
        Log(LogLevel::kInfo, "stopping on request, saved at step " + step +
                                 ": started again, training goes on from there");
      }
      checkpointing_->End();
      return saved;
    };
  }
  return WaitForDiskTogether(std::move(task));
}

// Called after the save, which matters more.
void Trainer::FinishProfile() {
  if (!config_.run.profile.empty()) {
    heartbeat_.Phase(kProfilePhase);
    profiler_.Finish();
  }
}

Result<void> Trainer::SaveIfDue(bool epoch_ended) {
  RETURN_IF_ERROR(checkpointing_->Poll());
  const bool best = best_ && config_.run.keep_best;
  // A save that was asked for may be of any step, so it waits until the saver has room.
  const bool asked = save_asked_ && (best || checkpointing_->HasRoom());
  // Finish saves the last step, with the result in it.
  if (best || asked || (!Done() && checkpointing_->Due(state_.step, epoch_ended))) {
    checkpointing_->Save(learner_->View(), StateNow(), best);
  }
  if (asked) {
    save_asked_ = false;
    printer_->EndLine();
    Log(LogLevel::kInfo, "saving step " + std::to_string(state_.step) + ", as SAVE asked");
  }
  return {};
}

// All ranks add their numbers up, and rank 0 prints them. It also puts into the same sum when to
// report next: if each rank looked at its own clock, they would disagree.
Result<void> Trainer::Report(std::uint64_t epoch, bool epoch_ended) {
  const double seconds = std::max(SecondsSince(reported_at_), 1e-6);
  const auto steps = static_cast<double>(state_.step - reported_step_);
  double next = 0;
  if (IsRankZero()) {
    next = std::clamp(steps / seconds * std::chrono::duration<double>(printer_->interval()).count(),
                      1.0, kMaxReport);
  }
  ASSIGN_OR_RETURN(const Score tally, learner_->TakeScore());
  std::array<double, 4> sums = {tally.loss_sum, static_cast<double>(tally.correct),
                                static_cast<double>(tally.samples), std::ceil(next)};
  RETURN_IF_ERROR(group_->Sum(sums));
  state_.loss = sums[0] / sums[2];
  if (IsRankZero()) {
    ProgressPoint point;
    point.epoch = epoch;
    point.epochs = Epochs();
    point.step = state_.step;
    point.total_steps = state_.step + StepsLeft();
    point.loss = state_.loss;
    point.accuracy = dataset_.task.classifies() ? sums[1] / sums[2] : std::nan("");
    point.lr = LearningRate();
    point.samples_per_second = sums[2] / seconds;
    point.step_seconds = seconds / steps;
    point.samples_left = SamplesLeft();
    point.ranks = env_.world_size;
    point.gradient_norm = learner_->GradientNorm();
    if (const std::optional<DeviceMemory> memory = learner_->MemoryOnDevice()) {
      point.gpu_bytes = memory->bytes;
      point.gpu_peak = memory->peak;
    }
    point.last_checkpoint = checkpointing_->last_saved();
    printer_->Print(point, epoch_ended);
    metrics_->Append(point);
    curves_.Append(point.step, ScalarsOf(point, env_.generation, ResidentBytes()));
    heartbeat_.Report(
        {point.loss, point.samples_per_second, point.last_checkpoint, point.total_steps});
  }
  reported_step_ = state_.step;
  reported_at_ = Clock::now();
  report_at_ = state_.step + static_cast<std::uint64_t>(sums[3]);
  return {};
}

// Has no states of random generators: what a step draws at random is a function of (seed, step,
// rank), see StepSeed.
TrainState Trainer::StateNow() const {
  TrainState state = state_;
  state.buckets = learner_->buckets();
  state.best = best_ && config_.run.keep_best;
  return state;
}

Snapshot Trainer::MakeSnapshot() const {
  WaitForCopies();  // Of an earlier View, which the next one makes invalid.
  return CopyNow(learner_->View(), StateNow());
}

// --scale-lr depends on the batch, not on the number of ranks that share it at the moment.
double Trainer::LearningRate() const {
  const auto batches =
      static_cast<double>(state_.global_batch) / static_cast<double>(state_.rank_batch);
  const double lr = config_.scale_lr ? config_.lr * batches : config_.lr;
  return lr * LearningRateFactor(schedule_, state_.step);
}

std::uint64_t Trainer::Epochs() const {
  return static_cast<std::uint64_t>(config_.epochs);
}

std::uint64_t Trainer::SamplesLeft() const {
  return (Epochs() - state_.epoch) * dataset_.train.count - state_.samples_in_epoch;
}

std::uint64_t Trainer::StepsLeft() const {
  if (state_.epoch >= Epochs()) {
    return 0;
  }
  const std::uint64_t samples = dataset_.train.count;
  return StepsPerEpoch(samples - state_.samples_in_epoch, state_.global_batch) +
         (Epochs() - state_.epoch - 1) * StepsPerEpoch(samples, state_.global_batch);
}

}  // namespace ddprun
