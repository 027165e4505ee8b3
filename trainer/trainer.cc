#include "trainer/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "trainer/data/entries.h"
#include "trainer/disk/disk_wait.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/learning/transfer.h"
#include "trainer/models/entries.h"
#include "trainer/profiler/memory.h"
#include "trainer/publishing.h"
#include "trainer/results.h"
#include "trainer/shared_settings.h"
#include "trainer/start_log.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstReport = 10;  // Steps; enough to know how long one takes.
constexpr double kMaxReport = 1e6;
constexpr std::chrono::milliseconds kStopLook{100};
constexpr std::chrono::milliseconds kDiskTurn{500};
constexpr std::chrono::seconds kTellEvery{5};
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

// ---- The start ----
Result<void> Trainer::JoinWorld() {
  GroupOptions options;
  options.timeout = std::chrono::seconds(config_.collective_timeout);
  const std::string interfaces = GetProcessEnv("GLOO_SOCKET_IFNAME").value_or("");
  options.interface = interfaces.substr(0, interfaces.find(','));  // A list, for PyTorch.
  options.backend = config_.backend_choice;
  options.device = device_;
  options.settle = [this](Board& board) {
    return AgreeOnSettings(board, SharedSettingsOf(config_), env_.rank, env_.world_size);
  };
  ASSIGN_OR_RETURN(group_, ProcessGroup::Join(env_, options));
  return {};
}

// By all ranks together, so that none takes one for gone whose disk is slow, or which stages.
Result<void> Trainer::LoadData() {
  const auto loaded = std::make_shared<std::optional<Dataset>>();
  const bool reads_files = FindDataset(config_.dataset)->reads_files;
  RETURN_IF_ERROR(WaitForDiskTogether({.what = "the data set (" + config_.dataset + ") is being " +
                                               (reads_files ? "loaded" : "made in memory"),
                                       .work = [load = calls_.load, loaded]() -> Result<void> {
                                         ASSIGN_OR_RETURN(*loaded, load());
                                         return {};
                                       },
                                       .on_disk = reads_files}));
  if (!*loaded) {
    return Error{ErrorKind::kUnavailable, "a peer of rank " + std::to_string(env_.rank) +
                                              " has no data (its own line says why)"};
  }
  dataset_ = std::move(**loaded);
  std::vector<double> all(2 * env_.world_size);
  all[2 * env_.rank] = dataset_.train.count;
  all[2 * env_.rank + 1] = dataset_.test.count;
  RETURN_IF_ERROR(group_->Sum(all));
  return AgreeOnSamples(all);
}

Result<void> Trainer::MakeLearner() {
  LearnerOptions learner;
  learner.task = dataset_.task;
  learner.model_arguments = config_.model_arguments;
  learner.seed = static_cast<std::uint64_t>(config_.seed);
  learner.optimizer = config_.optimizer_options;
  learner.clip_norm = config_.learning.clip_norm.value_or(0);
  learner.measure_norm = config_.learning.grad_norm;
  learner.precision = *ParsePrecision(config_.learning.autocast);
  if (learner.precision == Precision::kFloat16 && device_.kind == DeviceKind::kCpu) {
    return Error{ErrorKind::kInvalid,
                 "--autocast=fp16 is for GPUs, and this rank computes on the CPU; --autocast=bf16 "
                 "is for both"};
  }
  if (learner.precision == Precision::kFloat16 && !config_.run.split_devices.empty()) {
    return Error{ErrorKind::kInvalid, "--autocast=fp16 is not for a model on --split-devices"};
  }
  if (config_.learning.cuda_graph) {
    if (!device_.plugin) {
      return Error{ErrorKind::kInvalid,
                   "--cuda-graph is for GPUs, and this rank computes on the CPU"};
    }
    learner.graph = device_.plugin->MakeStepGraph();
  }
  learner.device = device_;
  learner.compression = *ParseCompression(config_.learning.compress);
  learner.loss = *ParseLoss(config_.learning.loss);
  learner.sync = !config_.run.no_sync;
  learner.freeze = config_.run.freeze;
  learner.split_devices = config_.run.split_devices;
  learner.bucket_bytes = static_cast<std::size_t>(config_.bucket_mib * (1 << 20));
  ASSIGN_OR_RETURN(sample_log_, SampleLog::Open(config_.sample_log, env_));
  try {
    learner_ = std::make_unique<Learner>(model_, learner, *group_);
  } catch (const std::exception& error) {  // The GPU's memory, perhaps.
    const std::string text = error.what();
    return Error{ErrorKind::kSystem, "cannot make the model: " + text.substr(0, text.find('\n'))};
  }
  if (!learner_->HasParameters()) {
    return Error{ErrorKind::kInvalid, "--freeze leaves no parameter to train"};
  }
  ASSIGN_OR_RETURN(profiler_, Profiler::Open(config_.run.profile, config_.run.schedule, env_));
  return {};
}

// Never each rank by its own look at the disk: they could see different things.
Result<StartPlan> Trainer::AgreeOnStart() {
  const auto choice = std::make_shared<Choice>();
  if (IsRankZero()) {
    printer_.emplace(config_.progress_every);
    choice->asked = FreshState(config_, env_.world_size, learner_->Describe());
    choice->asked.hyperparameters["backend"] = group_->backend();
    checkpointing_ =
        std::make_unique<Checkpointing>(config_, env_, choice->asked.model_description,
                                        [this](LogLevel level, const std::string& text) {
                                          printer_->EndLine();
                                          Log(level, text);
                                        });
  }
  RETURN_IF_ERROR(LookInMemory(choice));
  DiskTask task{.what = "the checkpoints in '" + config_.checkpoint_dir.native() +
                        "' are being claimed and read"};
  if (IsRankZero()) {
    task.work = [this, choice] {
      choice->read = ReadStart(*choice);
      return Result<void>();
    };
  }
  RETURN_IF_ERROR(WaitForDiskTogether(std::move(task)));
  std::string text;
  if (IsRankZero()) {
    Result<StartPlan> plan = ChooseStart(*choice);
    text = ToText(plan ? *plan : StartPlan{.refusal = plan.error()});
  }
  ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text)));
  ASSIGN_OR_RETURN(StartPlan plan, StartPlanFromText(text));
  if (plan.refusal && !IsRankZero()) {
    plan.refusal->message = "rank 0 did not start (its own line says why)";
  }
  if (plan.kind == StartKind::kFromMemory) {
    state_from_ = choice->remembered->rank;
    if (state_from_ == env_.rank) {
      RETURN_IF_ERROR(learner_->CopyFrom(*choice->found));
    }
  }
  return plan;
}

Result<void> Trainer::LookInMemory(const std::shared_ptr<Choice>& choice) {
  if (!config_.GoesOnFromMemory()) {
    return {};
  }
  memory_ = std::make_unique<MemorySnapshots>(env_);
  RETURN_IF_ERROR(WaitForDiskTogether({.what = "the state in memory is being read",
                                       .work =
                                           [this, choice] {
                                             choice->found = memory_->Find();
                                             return Result<void>();
                                           },
                                       .on_disk = false}));
  std::vector<double> ages(kAgeNumbers * env_.world_size);
  if (choice->found) {
    PutAge(choice->found->state,
           std::span<double, kAgeNumbers>(ages.data() + kAgeNumbers * env_.rank, kAgeNumbers));
  }
  RETURN_IF_ERROR(group_->Sum(ages));
  const std::optional<std::uint32_t> newest = NewestOf(ages);
  if (!newest) {
    return {};
  }
  std::string text;
  if (newest == env_.rank) {
    text = ToJson(StateFile{choice->found->state, {}});
  }
  ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text), *newest));
  ASSIGN_OR_RETURN(StateFile file, StateFileFromJson(text, "the newest state in memory"));
  choice->remembered = Remembered{std::move(file.state), *newest};
  return {};
}

// A training that does not begin has no curves to add to.
Result<void> Trainer::OpenRunFiles(const StartPlan& plan) {
  ASSIGN_OR_RETURN(metrics_, MetricsFile::Open(config_.metrics, env_.generation, env_.world_size));
  if (plan.kind != StartKind::kFinished) {
    ASSIGN_OR_RETURN(curves_, CurveFile::Open(config_.run.tensorboard, plan.state.step));
  }
  run_files_.emplace(config_.checkpoint_dir);
  return {};
}

Result<void> Trainer::ReadStart(Choice& choice) {
  RETURN_IF_ERROR(PrepareOutputs(config_));
  ASSIGN_OR_RETURN(choice.plan,
                   checkpointing_->Choose(choice.asked, choice.remembered, choice.loaded));
  if (RunFiles::StopAsked(config_.checkpoint_dir)) {
    return Error{ErrorKind::kRefused, "'" + (config_.checkpoint_dir / "STOP").native() +
                                          "' asks not to train: remove it to train on"};
  }
  RETURN_IF_ERROR(
      OpenRunFiles(choice.plan));  // After the directory was made, where metrics may be.
  if (choice.plan.kind == StartKind::kFresh && !config_.run.init_from.empty()) {
    ASSIGN_OR_RETURN(choice.given, ReadParameters(RealFileSystem(), config_.run.init_from));
  }
  return {};
}

Result<StartPlan> Trainer::ChooseStart(Choice& choice) {
  RETURN_IF_ERROR(choice.read);
  if (choice.loaded) {
    RETURN_IF_ERROR(learner_->CopyFrom(*choice.loaded));
  } else if (choice.plan.kind == StartKind::kFresh && !config_.run.init_from.empty()) {
    RETURN_IF_ERROR(StartFromOthers(choice.given, choice.plan));
  }
  return std::move(choice.plan);
}

Result<void> Trainer::StartFromOthers(const std::vector<Tensor>& given, StartPlan& plan) {
  Snapshot mine = CopyNow(learner_->View(), {});
  ASSIGN_OR_RETURN(const TransferReport report,
                   Transfer(given, config_.run.init_strict == "yes", mine.model));
  plan.notes.push_back("parameters from '" + config_.run.init_from.native() +
                       "': " + Describe(report));
  return learner_->CopyFrom(mine);
}

Result<void> Trainer::StartLearner(const StartPlan& plan) {
  state_ = plan.state;
  state_.finished = false;
  // Of the results of the training that this one goes on from, only those that go on too.
  state_.metrics = ValidationMetrics(state_.metrics);
  stopped_early_ =
      EnoughValidations(state_.metrics, static_cast<std::uint64_t>(config_.run.early_stop));
  if (state_.samples_in_epoch >= dataset_.train.count) {
    return Invalid(
        "the checkpoint has used more samples of its epoch than the data set has",
        std::to_string(state_.samples_in_epoch) + " of " + std::to_string(dataset_.train.count));
  }
  schedule_ = ScheduleOf(config_.learning, state_.step + StepsLeft());
  const std::uint64_t part = LargestPart();
  std::uint64_t numbers = 0;  // Of a batch, to fill.
  for (const Shape& shape : dataset_.task.inputs) {
    numbers += part * static_cast<std::uint64_t>(NumbersIn(shape));
  }
  RETURN_IF_ERROR(learner_->Start(static_cast<std::size_t>(part),
                                  static_cast<std::size_t>(model_.evaluation_batch), state_.buckets,
                                  state_from_));
  feed_.emplace(dataset_.train,
                FeedPlan{.start = {state_.epoch, state_.samples_in_epoch},
                         .seed = state_.seed,
                         .global_batch = state_.global_batch,
                         .most_per_part = part,
                         .rank = env_.rank,
                         .world_size = env_.world_size,
                         .ahead = PrefetchWanted(config_.learning, numbers)},
                std::array{learner_->room(0), learner_->room(1)});
  for (const Skew& skew : config_.run.skews) {
    skew_ = skew.rank == env_.rank ? skew.by : skew_;
  }
  reported_step_ = agreed_step_ = state_.step;
  report_at_ = state_.step + kFirstReport;
  agree_at_ = state_.step + 1;
  reported_at_ = agreed_at_ = std::chrono::steady_clock::now();
  heartbeat_.Resume(state_.step);
  if (IsRankZero()) {
    LogStart(config_, env_, device_, group_->note(), plan, LargestPart());
    if (!config_.run.profile.empty()) {
      Log(LogLevel::kInfo, "memory of a rank: " + MemoryEstimate(learner_->View()) + "; " +
                               MemoryMeasured() + " before the first step");
    }
  }
  if (checkpointing_ || memory_) {
    learner_->BeforeUpdate([this] { WaitForCopies(); });
  }
  if (checkpointing_ && plan.kind == StartKind::kFresh) {
    // A directory that cannot be written shows at once.
    checkpointing_->Save(learner_->View(), StateNow(), /*best=*/false);
  }
  return {};
}

// Of a step on this rank, at a time.
std::uint64_t Trainer::LargestPart() const {
  const std::uint64_t share = std::min<std::uint64_t>(
      LargestShare(state_.global_batch, env_.world_size), dataset_.train.count);
  return std::min(share, static_cast<std::uint64_t>(config_.micro_batch));
}

// ---- The step loop ----
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

bool Trainer::MayRemember() const {
  return memory_ && memory_->Ready(std::chrono::steady_clock::now()) &&
         (!checkpointing_ || checkpointing_->MayRemember(state_.step));
}

// Only rank 0's buffers count, so that what others have is not the state.
void Trainer::Remember() {
  if (IsRankZero() || !learner_->HasBuffers()) {
    const NamedRange range("checkpoint");
    memory_->Begin(learner_->View(), StateNow());
  }
}

void Trainer::WaitForCopies() const {
  if (checkpointing_) {
    checkpointing_->WaitForCopy();
  }
  if (memory_) {
    memory_->WaitForCopy();
  }
}

// ---- Evaluation ----
Result<Trainer::Evaluation> Trainer::Evaluate(const Samples& samples, bool at_end) {
  heartbeat_.Phase(kEvaluatedPhase);  // There may be something to wait for.
  RETURN_IF_ERROR(learner_->ShareBuffers());
  heartbeat_.Phase(kEvaluatePhase);
  Score score;
  std::vector<std::uint32_t> indices;
  for (std::uint64_t i = env_.rank; i < samples.count;) {
    indices.clear();
    for (; i < samples.count && indices.size() < model_.evaluation_batch; i += env_.world_size) {
      indices.push_back(static_cast<std::uint32_t>(i));
    }
    {
      const ReadWatch::Reading reading(reads_);
      RETURN_IF_ERROR(
          samples.gather(indices, std::nullopt, learner_->room(Learner::kEvaluationSlot)));
    }
    ASSIGN_OR_RETURN(const Score part, learner_->Evaluate(indices.size()));
    score += part;
    if (at_end) {
      SaveIfAskedToStop();
    }
  }
  heartbeat_.Phase(kEvaluatedPhase);
  std::array<double, 3> sums = {score.loss_sum, static_cast<double>(score.correct),
                                static_cast<double>(score.samples)};
  RETURN_IF_ERROR(at_end && IsRankZero() ? SumAtEnd(sums) : group_->Sum(sums));
  return Evaluation{sums[0] / sums[2], sums[1] / sums[2]};
}

// All ranks evaluate their share; rank 0's judgement counts for all.
Result<void> Trainer::Validate() {
  const NamedRange range("validation");
  const bool own = dataset_.validation.has_value();
  ASSIGN_OR_RETURN(const Evaluation result,
                   Evaluate(own ? *dataset_.validation : dataset_.test, /*at_end=*/false));
  best_ = NoteValidation(state_.metrics, state_.step, result.loss);
  const auto patience = static_cast<std::uint64_t>(config_.run.early_stop);
  std::array<double, 1> enough = {
      IsRankZero() && EnoughValidations(state_.metrics, patience) ? 1.0 : 0.0};
  RETURN_IF_ERROR(group_->Sum(enough));
  stopped_early_ = enough[0] > 0;
  if (!IsRankZero()) {
    return {};
  }
  std::vector<Scalar> curves = {{"validation/loss", result.loss}};
  if (dataset_.task.classifies()) {
    curves.push_back({"validation/accuracy", result.accuracy});
  }
  curves_.Append(state_.step, curves);
  char text[160];
  std::snprintf(text, sizeof text, "validation at step %llu on the %s: loss %.4f",
                static_cast<unsigned long long>(state_.step),
                own ? "held-out training samples" : "test set", result.loss);
  std::string line = text;
  if (dataset_.task.classifies()) {
    std::snprintf(text, sizeof text, ", accuracy %.2f%%", 100 * result.accuracy);
    line += text;
  }
  if (best_) {
    line += " (the best so far)";
  } else if (state_.metrics.count(kBestLoss) > 0) {
    std::snprintf(text, sizeof text, " (best %.4f at step %.0f, %.0f ago)",
                  state_.metrics[kBestLoss], state_.metrics[kBestStep], state_.metrics[kSinceBest]);
    line += text;
  }
  printer_->EndLine();
  Log(LogLevel::kInfo, line);
  if (stopped_early_) {
    Log(LogLevel::kInfo,
        "stopping early: " + std::to_string(patience) + " validations in a row without a gain");
  }
  return {};
}

// ---- The end ----
// It may take longer than who asked has patience, and a restart need not train again for it.
void Trainer::SaveIfAskedToStop() {
  if (!IsRankZero() || !StopRequest::Signal() || checkpointing_->handed_over() == state_.step ||
      !checkpointing_->HasRoom()) {
    return;
  }
  checkpointing_->Save(learner_->View(), StateNow(), /*best=*/false);
  printer_->EndLine();
  Log(LogLevel::kInfo, "asked to stop: step " + std::to_string(state_.step) +
                           " is being saved, and the evaluation goes on");
}

// The others' shares may take as long as the own.
Result<void> Trainer::SumAtEnd(std::span<double> sums) {
  std::future<Result<void>> sum =
      std::async(std::launch::async, [this, sums] { return group_->Sum(sums); });
  while (sum.wait_for(kStopLook) != std::future_status::ready) {
    SaveIfAskedToStop();
  }
  return sum.get();
}

Result<void> Trainer::Finish() {
  profiler_.Stop();
  if (IsRankZero() && !config_.run.profile.empty()) {
    printer_->EndLine();
    Log(LogLevel::kInfo, "memory of this rank after the last step: " + MemoryMeasured());
  }
  if (config_.run.no_sync && env_.world_size > 1) {
    heartbeat_.Phase(kEvaluatedPhase);
    RETURN_IF_ERROR(SayHowFarApart());
  }
  ASSIGN_OR_RETURN(const Evaluation train, Evaluate(dataset_.train, /*at_end=*/true));
  ASSIGN_OR_RETURN(const Evaluation test, Evaluate(dataset_.test, /*at_end=*/true));
  if (!IsRankZero()) {
    FinishProfile();
    return {};
  }
  heartbeat_.Phase(kCheckpointPhase);
  state_.finished = true;
  const std::map<std::string, double> validation = ValidationMetrics(state_.metrics);
  state_.metrics = {{"train_loss", train.loss},
                    {"train_samples", dataset_.train.count},
                    {"test_loss", test.loss},
                    {"test_samples", dataset_.test.count}};
  if (dataset_.task.classifies()) {
    state_.metrics["train_accuracy"] = train.accuracy;
    state_.metrics["test_accuracy"] = test.accuracy;
  }
  std::vector<Scalar> curves;
  for (const char* const name : {"train_loss", "test_loss", "train_accuracy", "test_accuracy"}) {
    if (const auto metric = state_.metrics.find(name); metric != state_.metrics.end()) {
      curves.push_back({std::string("end/") + name, metric->second});
    }
  }
  curves_.Append(state_.step, curves);
  state_.metrics.insert(validation.begin(), validation.end());
  if (stopped_early_) {
    state_.metrics[kStoppedEarly] = 1;
  }
  best_ = false;  // Was saved as such.
  RETURN_IF_ERROR(WriteEverything(/*save=*/true));
  FinishProfile();
  return PrintResult(state_);
}

// One after the other, so that each says by itself what is waited for.
Result<void> Trainer::WriteEverything(bool save) {
  const auto last = std::make_shared<const Snapshot>(MakeSnapshot());
  const std::uint64_t bytes = ByteCount(*last);
  const std::string directory = "'" + config_.checkpoint_dir.native() + "'";
  if (save) {  // Before all that a full disk may refuse.
    RETURN_IF_ERROR(
        WaitForDisk({.what = "the last checkpoint (step " + std::to_string(state_.step) +
                             ") is being saved in " + directory,
                     .bytes = 2 * bytes,  // One may be on its way already.
                     .work = [this, last] { return checkpointing_->SaveNow(Snapshot(*last)); }}));
  }
  if (const std::filesystem::path& path = config_.dump_parameters; !path.empty()) {
    RETURN_IF_ERROR(
        WaitForDisk({.what = "the parameters are being written to '" + path.native() + "'",
                     .bytes = bytes,
                     .work = [path, last] { return WriteParameters(path, last->model); }}));
  }
  if (!config_.run.publish.empty()) {
    RETURN_IF_ERROR(WaitForDisk(
        {.what = "the model is being published in '" + config_.run.publish.native() + "'",
         .bytes = 2 * bytes,
         .work = [this, last] { return PublishResult(*last); }}));
  }
  RETURN_IF_ERROR(
      WaitForDisk({.what = "the checkpoints in " + directory + " are being closed", .work = [this] {
                     Result<void> closed = checkpointing_->Close();
                     checkpointing_->End();
                     return closed;
                   }}));
  if (const std::filesystem::path& path = config_.learning.result; !path.empty()) {
    RETURN_IF_ERROR(WaitForDisk({.what = "the result is being written to '" + path.native() + "'",
                                 .work = [path, state = state_, ranks = env_.world_size] {
                                   return WriteResult(path, state, ranks);
                                 }}));
  }
  return {};
}

Result<void> Trainer::SayHowFarApart() {
  std::vector<double> distances(env_.world_size, 0);
  ASSIGN_OR_RETURN(distances[env_.rank], learner_->DistanceFromRankZero());
  RETURN_IF_ERROR(group_->Sum(distances));
  if (!IsRankZero()) {
    return {};
  }
  printer_->EndLine();
  for (std::uint32_t rank = 1; rank < env_.world_size; ++rank) {
    char text[120];
    std::snprintf(text, sizeof text,
                  "after %llu steps rank %u's parameters differ from rank 0's by up to %.3g",
                  static_cast<unsigned long long>(state_.step), rank, distances[rank]);
    Log(LogLevel::kInfo, text);
  }
  return {};
}

// Parameters of the best checkpoint where best ones are kept, else the last.
Result<void> Trainer::PublishResult(const Snapshot& last) {
  Snapshot snapshot = last;
  if (config_.run.keep_best) {
    Result<std::optional<LoadedCheckpoint>> best = checkpointing_->LoadBest();
    if (!best && best.error().kind != ErrorKind::kSystem) {  // Still so after a restart.
      return Error{
          ErrorKind::kRefused,
          "the best checkpoint is broken, and nothing was published: " + best.error().message +
              ". The training itself is finished and saved; started again without "
              "--keep-best, it publishes the parameters of the last step"};
    }
    RETURN_IF_ERROR(best);
    if (*best) {
      snapshot = std::move((*best)->snapshot);
    }
  }
  RETURN_IF_ERROR(Publish(RealFileSystem(), config_.run.publish, snapshot.model, snapshot.state));
  Log(LogLevel::kInfo, "published the parameters of step " + std::to_string(snapshot.state.step) +
                           " in " + config_.run.publish.native());
  return {};
}

Result<void> Trainer::PrintResult(const TrainState& state) {
  const std::string lines = ResultLines(state);
  return WaitForDisk({.what = "the result is being written to standard output",
                      .bytes = lines.size(),
                      .work = [lines]() -> Result<void> {
                        (void)WriteAll(STDOUT_FILENO, lines, "standard output");
                        return {};
                      }});
}

Result<void> Trainer::SayFinishedBefore(const TrainState& state) {
  if (!IsRankZero()) {
    return {};
  }
  state_ = state;
  RETURN_IF_ERROR(WriteEverything(/*save=*/false));
  Log(LogLevel::kInfo,
      "this training is finished already: " + std::to_string(state.epoch) + " epochs, " +
          std::to_string(state.step) + " steps, in " + config_.checkpoint_dir.string() +
          ". Train on with more --epochs; start afresh with --resume=never or another "
          "--checkpoint-dir. Its result was:");
  return PrintResult(state);
}

// ---- Waiting for a disk ----
Result<void> Trainer::WaitForDisk(DiskTask task) {
  return Wait(std::move(task), /*together=*/false);
}

Result<void> Trainer::WaitForDiskTogether(DiskTask task) {
  return Wait(std::move(task), /*together=*/true);
}

Result<void> Trainer::Wait(DiskTask&& task, bool together) {
  if (printer_) {
    printer_->EndLine();  // Before `work` has something to say.
  }
  OwnTime time(Clock::now());
  DiskWait wait(time.Look(Clock::now()), task.bytes);
  std::optional<DiskWork> work;
  if (task.work) {
    work.emplace(std::move(task.work));
  }
  const auto turn = std::min<std::chrono::milliseconds>(
      kDiskTurn, std::chrono::seconds(config_.collective_timeout) / 4);
  Clock::time_point told = time.Look(Clock::now());
  std::optional<Result<void>> outcome;
  for (bool asked = false;;) {
    if (work && !outcome) {
      outcome = work->Wait(turn);
    }
    const bool busy = work && !outcome;
    const Clock::time_point now = time.Look(Clock::now());
    const DiskWait::Due due = wait.Look(now, asked);
    // Busy, failed, asked to stop, given up: of all ranks.
    std::array<double, 4> sums = {busy ? 1.0 : 0.0, outcome && !*outcome ? 1.0 : 0.0,
                                  StopRequest::Signal() ? 1.0 : 0.0,
                                  busy && due.give_up ? 1.0 : 0.0};
    if (together) {
      std::optional<StopGuard::Turn> in_turn;
      if (guard_) {
        in_turn.emplace(*guard_, work ? &*work : nullptr, wait.patience());
      }
      RETURN_IF_ERROR(group_->Sum(sums));
    }
    if (sums[0] == 0 || sums[1] > 0) {
      return outcome.value_or(Result<void>());
    }
    if (sums[3] > 0) {
      return Error{ErrorKind::kUnavailable,
                   "asked to stop, but " + task.what + " for " +
                       std::to_string(wait.Lasted(now).count()) + " s" +
                       (task.on_disk ? ": the disk does not answer" : "") +
                       ". Ending without it. Started again, training continues from the "
                       "last saved checkpoint, or from the beginning if there is none"};
    }
    if (busy && due.word) {
      Log(LogLevel::kWarning, task.what + ", " + std::to_string(wait.Lasted(now).count()) +
                                  (task.on_disk ? " s so far: waiting for the disk"
                                                : " s so far: waiting for the CPU"));
    }
    if (now - told >= kTellEvery) {
      told = now;
      heartbeat_.Extend();
    }
    asked = sums[2] > 0;
  }
}

// ---- Values ----
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
