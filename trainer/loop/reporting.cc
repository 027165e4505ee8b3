#include "trainer/loop/reporting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "trainer/learning/torch_settings.h"
#include "trainer/loop/evaluation.h"
#include "trainer/profiler/memory.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstReport = 10;  // Steps; enough to know how long one takes.
constexpr double kMostStepsToReport = 1e6;  // Between two reports.

}  // namespace

Result<void> Reporting::BeforeFirstStep() {
  reported_step_ = training_.state.step;
  report_at_ = reported_step_ + kFirstReport;
  reported_at_ = Clock::now();
  return {};
}

Result<void> Reporting::AfterStep(const FinishedStep& step) {
  const std::uint64_t number = training_.state.step;
  if (step.epoch_ended || number >= report_at_) {
    RETURN_IF_ERROR(Report(step));
  }
  training_.heartbeat.Step(number, step.work);
  if (!replays_ && training_.learner->Replays()) {
    replays_ = true;
    if (training_.IsRankZero()) {
      training_.Say(
          LogLevel::kInfo,
          "full steps are replayed from a CUDA graph, recorded at step " + std::to_string(number));
    }
  }
  return {};
}

// Rank 0 puts into the same sum when to report next: if each rank looked at its own clock, they
// would disagree.
Result<void> Reporting::Report(const FinishedStep& step) {
  const double seconds =
      std::max(std::chrono::duration<double>(Clock::now() - reported_at_).count(), 1e-6);
  const auto steps = static_cast<double>(training_.state.step - reported_step_);
  double next = 0;
  if (training_.IsRankZero()) {
    const double interval = std::chrono::duration<double>(training_.printer->interval()).count();
    next = std::clamp(steps / seconds * interval, 1.0, kMostStepsToReport);
  }
  ASSIGN_OR_RETURN(const Score own, training_.learner->TakeScore());
  const bool finite = std::isfinite(own.loss_sum);
  // Steps to the next report; the ranks whose loss is not finite, and their numbers.
  std::array<double, 3> sums = {std::ceil(next), finite ? 0.0 : 1.0,
                                finite ? 0.0 : training_.env.rank};
  ASSIGN_OR_RETURN(const Score sum, SumOverRanks(*training_.group, own, sums));
  training_.state.loss = sum.loss_sum / static_cast<double>(sum.samples);
  if (training_.IsRankZero()) {
    Publish(sum, seconds, step);
    if (sums[1] > 0 && !std::exchange(warned_, true)) {
      WarnOfLoss(sums[1], sums[2]);
    }
  }
  reported_step_ = training_.state.step;
  reported_at_ = Clock::now();
  report_at_ = training_.state.step + static_cast<std::uint64_t>(sums[0]);
  return {};
}

void Reporting::WarnOfLoss(double count, double sum) {
  const auto whole = [](double number) {
    return std::to_string(static_cast<std::uint64_t>(number));
  };
  const std::string ranks =
      count == 1 ? "rank " + whole(sum)
                 : whole(count) + " of " + std::to_string(training_.env.world_size) + " ranks";
  training_.Say(LogLevel::kWarning,
                "the loss of " + ranks + " is " +
                    (std::isnan(training_.state.loss) ? "nan" : "infinite") + " in a step from " +
                    std::to_string(reported_step_ + 1) + " to " +
                    std::to_string(training_.state.step) +
                    ". Training continues, but parameters and new checkpoints may be nan too. Look "
                    "for such numbers in the samples, or start afresh with a lower learning rate "
                    "or clipped gradients (--init-from takes an older checkpoint's parameters)");
}

// Of all ranks' samples since the last report, which took so many `seconds`.
void Reporting::Publish(const Score& score, double seconds, const FinishedStep& step) {
  const TrainState& state = training_.state;
  const auto samples = static_cast<double>(score.samples);
  ProgressPoint point;
  point.epoch = step.epoch;
  point.epochs = training_.Epochs();
  point.step = state.step;
  point.total_steps = state.step + training_.StepsLeft();
  point.loss = state.loss;
  point.accuracy = training_.dataset.task.classifies()
                       ? static_cast<double>(score.correct) / samples
                       : std::nan("");
  point.others = score.others;
  for (auto& [name, value] : point.others) {
    value /= samples;
  }
  point.lr = training_.learner->LearningRate().value_or(training_.LearningRate());
  point.samples_per_second = samples / seconds;
  point.step_seconds = seconds / static_cast<double>(state.step - reported_step_);
  point.ranks = training_.env.world_size;
  point.gradient_norm = training_.learner->GradientNorm();
  if (const std::optional<DeviceMemory> memory = MemoryOf(training_.device)) {
    point.gpu_bytes = memory->bytes;
    point.gpu_peak = memory->peak;
  }
  point.last_checkpoint = saving_.last_saved();
  training_.printer->Print(point, step.epoch_ended);
  const Generation generation = training_.env.generation;
  training_.metrics.Append(MetricsLine(point, generation));
  training_.curves.Append(CurveRecord(point.step, ScalarsOf(point, generation, ResidentBytes())));
  training_.heartbeat.Report(
      {point.loss, point.samples_per_second, point.last_checkpoint, point.total_steps});
}

Result<void> Reporting::Close(const Result<TrainingEnd>& /*end*/) {
  if (training_.printer) {
    training_.printer->EndLine();
  }
  training_.metrics.Finish();
  training_.curves.Finish();
  return {};
}

}  // namespace ddprun
