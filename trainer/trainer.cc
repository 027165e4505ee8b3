#include "trainer/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/log.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kEvaluationBatch = 1000;
constexpr std::uint64_t kFirstReport = 10;  // Steps; enough to know how long one takes.
constexpr double kMaxReport = 1e6;
constexpr double kAgreeInterval = 0.1;  // Seconds; asking costs an all-reduce of two numbers.

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void PrintAccuracy(const char* of, double accuracy, double loss, double samples) {
  std::printf("%s accuracy %.2f%%, loss %.4f (%.0f samples)\n", of, 100 * accuracy, loss, samples);
}

Result<void> WriteParameters(const std::filesystem::path& path,
                             const std::vector<Tensor>& parameters) {
  const std::string header = SafetensorsHeader(parameters, {{"format", "pt"}});
  RETURN_IF_ERROR(RealFileSystem().Write(path, SafetensorsParts(header, parameters)));
  return {};
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const WorkerEnv& env, const Dataset& dataset,
                 const Notifier& notifier)
    : config_(config), env_(env), dataset_(dataset), heartbeat_(notifier) {}

Result<TrainingEnd> Trainer::Run() {
  Result<TrainingEnd> done = RunToTheEnd();
  if (printer_) {
    printer_->EndLine();
  }
  return done;
}

Result<TrainingEnd> Trainer::RunToTheEnd() {
  heartbeat_.Phase(kJoinPhase);
  RETURN_IF_ERROR(JoinWorld());
  heartbeat_.Phase(kRestorePhase);
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
  while (state_.epoch < Epochs()) {
    RETURN_IF_ERROR(TakeStep());
    if (stop_ && state_.epoch < Epochs()) {
      RETURN_IF_ERROR(SaveAndStop());
      return TrainingEnd::kStopped;
    }
  }
  RETURN_IF_ERROR(Finish());
  return TrainingEnd::kFinished;
}

Result<void> Trainer::JoinWorld() {
  GroupOptions options;
  options.timeout = std::chrono::seconds(config_.collective_timeout);
  const std::string interfaces = GetProcessEnv("GLOO_SOCKET_IFNAME").value_or("");
  options.interface = interfaces.substr(0, interfaces.find(','));  // A list, for PyTorch.
  ASSIGN_OR_RETURN(group_, ProcessGroup::Join(env_, options));
  LearnerOptions learner;
  learner.shape = {dataset_.train.pixels, dataset_.classes};
  learner.seed = static_cast<std::uint64_t>(config_.seed);
  learner.lr = config_.lr;
  learner.bucket_bytes = static_cast<std::size_t>(config_.bucket_mib * (1 << 20));
  ASSIGN_OR_RETURN(sample_log_, SampleLog::Open(config_.sample_log, env_));
  learner_ = std::make_unique<Learner>(*FindModel(config_.model), learner, *group_);
  return {};
}

// Never each rank by its own look at the disk: they could see different things.
Result<StartPlan> Trainer::AgreeOnStart() {
  std::string text;
  if (IsRankZero()) {
    Result<StartPlan> plan = ChooseStart();
    if (!plan) {
      plan = StartPlan{.refusal = plan.error()};
    }
    text = ToText(*plan);
  }
  ASSIGN_OR_RETURN(text, group_->BroadcastText(std::move(text)));
  ASSIGN_OR_RETURN(StartPlan plan, StartPlanFromText(text));
  if (plan.refusal && !IsRankZero()) {
    plan.refusal->message = "rank 0 did not start (its own line says why)";
  }
  return plan;
}

Result<StartPlan> Trainer::ChooseStart() {
  printer_.emplace(config_.progress_every);
  ASSIGN_OR_RETURN(metrics_, MetricsFile::Open(config_.metrics, env_.generation, env_.world_size));
  const std::string description = learner_->Describe();
  const Checkpointing::Say say = [this](LogLevel level, const std::string& text) {
    printer_->EndLine();
    Log(level, text);
  };
  ASSIGN_OR_RETURN(checkpointing_, Checkpointing::Open(config_, env_, description, say));
  std::optional<Snapshot> loaded;
  ASSIGN_OR_RETURN(
      const StartPlan plan,
      checkpointing_->ChooseStart(FreshState(config_, env_.world_size, description), loaded));
  if (loaded) {
    RETURN_IF_ERROR(learner_->CopyFrom(*loaded));
  }
  return plan;
}

Result<void> Trainer::StartLearner(const StartPlan& plan) {
  state_ = plan.state;
  state_.finished = false;
  state_.metrics.clear();  // Results of the training that this one goes on from.
  if (state_.samples_in_epoch >= dataset_.train.count) {
    return Invalid(
        "the checkpoint has used more samples of its epoch than the data set has",
        std::to_string(state_.samples_in_epoch) + " of " + std::to_string(dataset_.train.count));
  }
  const std::uint64_t share = std::min<std::uint64_t>(
      LargestShare(state_.global_batch, env_.world_size), dataset_.train.count);
  RETURN_IF_ERROR(
      learner_->Start(static_cast<std::size_t>(std::max(share, kEvaluationBatch)), state_.buckets));
  reported_step_ = agreed_step_ = state_.step;
  report_at_ = state_.step + kFirstReport;
  agree_at_ = state_.step + 1;
  reported_at_ = agreed_at_ = Clock::now();
  heartbeat_.Step(state_.step);
  if (IsRankZero()) {
    LogStart(plan);
    learner_->BeforeUpdate([this] { checkpointing_->WaitForCopy(); });
  }
  if (checkpointing_ && plan.kind == StartKind::kFresh) {
    checkpointing_->Save(learner_->View(),
                         StateNow());  // A directory that cannot be written shows at once.
  }
  return {};
}

void Trainer::LogStart(const StartPlan& plan) const {
  for (const std::string& note : plan.notes) {
    Log(LogLevel::kInfo, note);
  }
  const std::string where = " (" + std::to_string(env_.world_size) +
                            (env_.world_size == 1 ? " rank" : " ranks") + ", global batch " +
                            std::to_string(state_.global_batch) + ", checkpoints in " +
                            config_.checkpoint_dir.string() + ")";
  if (plan.kind == StartKind::kResume) {
    Log(LogLevel::kInfo, "resumed at step " + std::to_string(state_.step) + ", epoch " +
                             std::to_string(state_.epoch + 1) + " of " +
                             std::to_string(config_.epochs) + where);
  } else {
    Log(LogLevel::kInfo, "training " + config_.model + " on " + config_.dataset + where);
  }
}

Result<void> Trainer::TakeStep() {
  const std::uint64_t samples = dataset_.train.count;
  const GlobalBatch batch =
      BatchAt({state_.epoch, state_.samples_in_epoch}, samples, state_.global_batch);
  if (!order_ || batch.first == 0) {
    order_.emplace(samples, state_.seed, batch.epoch);
  }
  heartbeat_.Phase(kDataPhase);
  FillShare(*order_, batch, env_.rank, env_.world_size, indices_);
  GatherBatch(dataset_, dataset_.train, indices_, learner_->images(), learner_->labels());
  heartbeat_.Phase(kStepPhase);
  ASSIGN_OR_RETURN(
      const Score score,
      learner_->Step(indices_.size(), batch.count, StepSeed(state_.seed, state_.step, env_.rank)));
  tally_ += score;

  const Cursor cursor = CursorAfter(batch, samples);
  ++state_.step;
  state_.epoch = cursor.epoch;
  state_.samples_in_epoch = cursor.consumed;
  RETURN_IF_ERROR(sample_log_->Append(batch.epoch, state_.step, indices_));
  const bool epoch_ended = cursor.epoch != batch.epoch;
  if (epoch_ended || state_.step >= report_at_) {
    RETURN_IF_ERROR(Report(batch.epoch, epoch_ended));
  }
  heartbeat_.Step(state_.step);
  if (checkpointing_) {
    RETURN_IF_ERROR(SaveIfDue(epoch_ended));
  }
  return state_.step >= agree_at_ ? AgreeOnStop() : Result<void>();
}

// As in Report: rank 0 says in the same sum when to ask again.
Result<void> Trainer::AgreeOnStop() {
  double next = 0;
  if (IsRankZero()) {
    const double seconds = std::max(SecondsSince(agreed_at_), 1e-6);
    const auto steps = static_cast<double>(state_.step - agreed_step_);
    next = std::clamp(std::floor(steps / seconds * kAgreeInterval), 1.0, kMaxReport);
  }
  std::array<double, 2> sums = {StopRequest::Signal() ? 1.0 : 0.0, next};
  RETURN_IF_ERROR(group_->Sum(sums));
  stop_ = sums[0] > 0;
  agreed_step_ = state_.step;
  agreed_at_ = Clock::now();
  agree_at_ = state_.step + static_cast<std::uint64_t>(sums[1]);
  return {};
}

// The others wait for rank 0: the first one to end has its node's launcher stop those beside it.
Result<void> Trainer::SaveAndStop() {
  heartbeat_.Phase(kCheckpointPhase);
  Result<void> saved;
  if (IsRankZero()) {
    saved = checkpointing_->SaveNow(MakeSnapshot());
    printer_->EndLine();
    if (saved) {
      Log(LogLevel::kInfo, "stopping on request, saved at step " + std::to_string(state_.step) +
                               ": started again, training goes on from there");
    }
  }
  std::array<double, 1> all_here = {0};
  RETURN_IF_ERROR(group_->Sum(all_here));
  return saved;
}

Result<void> Trainer::SaveIfDue(bool epoch_ended) {
  RETURN_IF_ERROR(checkpointing_->Poll());
  // The last one is saved by Finish, with the result in it.
  if (state_.epoch < Epochs() && checkpointing_->Due(state_.step, epoch_ended)) {
    checkpointing_->Save(learner_->View(), StateNow());
  }
  return {};
}

// All ranks add up; rank 0 prints, and says in the same sum when to do so again, since the others
// must not look at their own clocks.
Result<void> Trainer::Report(std::uint64_t epoch, bool epoch_ended) {
  const double seconds = std::max(SecondsSince(reported_at_), 1e-6);
  const auto steps = static_cast<double>(state_.step - reported_step_);
  double next = 0;
  if (IsRankZero()) {
    next = std::clamp(steps / seconds * std::chrono::duration<double>(printer_->interval()).count(),
                      1.0, kMaxReport);
  }
  std::array<double, 4> sums = {tally_.loss_sum, static_cast<double>(tally_.correct),
                                static_cast<double>(tally_.samples), std::ceil(next)};
  RETURN_IF_ERROR(group_->Sum(sums));
  if (IsRankZero()) {
    ProgressPoint point;
    point.epoch = epoch;
    point.epochs = Epochs();
    point.step = state_.step;
    point.total_steps = state_.step + StepsLeft();
    point.loss = sums[0] / sums[2];
    point.accuracy = sums[1] / sums[2];
    point.samples_per_second = sums[2] / seconds;
    point.samples_left = SamplesLeft();
    point.last_checkpoint = checkpointing_->last_saved();
    state_.loss = point.loss;
    printer_->Print(point, epoch_ended);
    metrics_->Append(point);
  }
  tally_ = {};
  reported_step_ = state_.step;
  reported_at_ = Clock::now();
  report_at_ = state_.step + static_cast<std::uint64_t>(sums[3]);
  return {};
}

Result<Trainer::Evaluation> Trainer::Evaluate(const Samples& samples) {
  Score score;
  for (std::uint64_t i = env_.rank; i < samples.count;) {
    indices_.clear();
    for (; i < samples.count && indices_.size() < kEvaluationBatch; i += env_.world_size) {
      indices_.push_back(static_cast<std::uint32_t>(i));
    }
    GatherBatch(dataset_, samples, indices_, learner_->images(), learner_->labels());
    ASSIGN_OR_RETURN(const Score part, learner_->Evaluate(indices_.size()));
    score += part;
  }
  std::array<double, 3> sums = {score.loss_sum, static_cast<double>(score.correct),
                                static_cast<double>(score.samples)};
  RETURN_IF_ERROR(group_->Sum(sums));
  return Evaluation{sums[0] / sums[2], sums[1] / sums[2]};
}

Result<void> Trainer::Finish() {
  heartbeat_.Phase(kEvaluatePhase);
  ASSIGN_OR_RETURN(const Evaluation train, Evaluate(dataset_.train));
  ASSIGN_OR_RETURN(const Evaluation test, Evaluate(dataset_.test));
  if (!IsRankZero()) {
    return {};
  }
  heartbeat_.Phase(kCheckpointPhase);
  state_.finished = true;
  state_.metrics = {{"train_accuracy", train.accuracy},
                    {"train_loss", train.loss},
                    {"train_samples", dataset_.train.count},
                    {"test_accuracy", test.accuracy},
                    {"test_loss", test.loss},
                    {"test_samples", dataset_.test.count}};
  if (!config_.dump_parameters.empty()) {
    RETURN_IF_ERROR(WriteParameters(config_.dump_parameters, MakeSnapshot().model));
  }
  RETURN_IF_ERROR(checkpointing_->Finish(MakeSnapshot()));
  PrintResult(state_);
  return {};
}

void Trainer::PrintResult(const TrainState& state) {
  printer_->EndLine();
  for (const std::string of : {"train", "test"}) {
    const auto metric = [&](const char* name) {
      const auto found = state.metrics.find(of + name);
      return found == state.metrics.end() ? std::nan("") : found->second;
    };
    PrintAccuracy(of.c_str(), metric("_accuracy"), metric("_loss"), metric("_samples"));
  }
  std::fflush(stdout);
}

Result<void> Trainer::SayFinishedBefore(const TrainState& state) {
  if (!IsRankZero()) {
    return {};
  }
  if (!config_.dump_parameters.empty()) {
    RETURN_IF_ERROR(WriteParameters(config_.dump_parameters, MakeSnapshot().model));
  }
  RETURN_IF_ERROR(checkpointing_->Close());
  Log(LogLevel::kInfo,
      "this training is finished already: " + std::to_string(state.epoch) + " epochs, " +
          std::to_string(state.step) + " steps, in " + config_.checkpoint_dir.string() +
          ". Train on with more --epochs; start afresh with --resume=never or another "
          "--checkpoint-dir. Its result was:");
  PrintResult(state);
  return {};
}

// The generators' states are not in it: what a step draws at random is a function of (seed, step,
// rank), see StepSeed.
TrainState Trainer::StateNow() const {
  TrainState state = state_;
  state.buckets = learner_->buckets();
  return state;
}

Snapshot Trainer::MakeSnapshot() const {
  return CopyNow(learner_->View(), StateNow());
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
