// How a training begins: the world, the checkpoint to go on from, the learner.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/log.h"
#include "trainer/data/entries.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/learning/transfer.h"
#include "trainer/profiler/memory.h"
#include "trainer/publishing.h"
#include "trainer/shared_settings.h"
#include "trainer/trainer.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kFirstReport = 10;  // Steps; enough to know how long one takes.

}  // namespace

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
  RETURN_IF_ERROR(PrepareOutputs());
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
    LogStart(plan);
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

void Trainer::LogDevice() const {
  if (!device_.note.empty()) {
    Log(LogLevel::kInfo, device_.note);
  }
  if (!device_.plugin) {
    return;
  }
  const Result<DeviceFacts> gpu = device_.plugin->Describe(device_.index);
  if (!gpu) {
    Log(LogLevel::kWarning, gpu.error().message);
    return;
  }
  constexpr double kGiB = 1 << 30;
  char memory[64];
  std::snprintf(memory, sizeof memory, ", %.1f of %.1f GiB free",
                static_cast<double>(gpu->free_bytes) / kGiB,
                static_cast<double>(gpu->total_bytes) / kGiB);
  Log(LogLevel::kInfo,
      "computing on GPU " + std::to_string(device_.index) + " (" + gpu->name + memory + ")");
}

void Trainer::LogStart(const StartPlan& plan) const {
  LogDevice();
  if (!group_->note().empty()) {
    Log(LogLevel::kInfo, group_->note());
  }
  for (const std::string& note : plan.notes) {
    Log(LogLevel::kInfo, note);
  }
  for (const Skew& skew : config_.run.skews) {
    Log(LogLevel::kInfo, "rank " + std::to_string(skew.rank) + " is made slower by " +
                             std::to_string(skew.by.count()) + " ms in every step (--skew)" +
                             (skew.rank < env_.world_size ? "" : ", but there is none"));
  }
  if (config_.run.no_sync) {
    Log(LogLevel::kWarning,
        "gradients are not averaged (--no-sync): each rank trains a model of its own on its share; "
        "checkpoints are rank 0's");
  }
  const std::uint64_t share = LargestShare(state_.global_batch, env_.world_size);
  if (const std::uint64_t part = LargestPart(); part < share) {
    Log(LogLevel::kInfo, "each rank learns from its " + std::to_string(share) +
                             " samples of a step in parts of at most " + std::to_string(part) +
                             ", whose gradients add up" +
                             (config_.learning.cuda_graph
                                  ? "; --cuda-graph records only steps of one part: none here"
                                  : ""));
  }
  const std::string where = " (" + std::to_string(env_.world_size) +
                            (env_.world_size == 1 ? " rank" : " ranks") + ", global batch " +
                            std::to_string(state_.global_batch) + ", checkpoints in " +
                            config_.checkpoint_dir.string() + ")";
  if (plan.kind != StartKind::kFresh) {
    Log(LogLevel::kInfo, "resumed at step " + std::to_string(state_.step) + ", epoch " +
                             std::to_string(state_.epoch + 1) + " of " +
                             std::to_string(config_.epochs) + where);
  } else {
    Log(LogLevel::kInfo, "training " + config_.model + " on " + config_.dataset + where);
  }
}

}  // namespace ddprun
