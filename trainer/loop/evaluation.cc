#include "trainer/loop/evaluation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "common/format.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/profiler/recorder.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kSaveLook{100};

// The others' shares may take as long as the own.
Result<Score> SumMeanwhile(ProcessGroup& group, const Score& own,
                           const std::function<void()>& meanwhile) {
  std::future<Result<Score>> sum =
      std::async(std::launch::async, [&group, own] { return SumOverRanks(group, own); });
  while (sum.wait_for(kSaveLook) != std::future_status::ready) {
    meanwhile();
  }
  return sum.get();
}

}  // namespace

Result<Score> SumOverRanks(ProcessGroup& group, const Score& own, std::span<double> values) {
  std::vector<double> sums = {own.loss_sum, static_cast<double>(own.correct),
                              static_cast<double>(own.samples)};
  for (const auto& [name, sum] : own.others) {
    sums.push_back(sum);
  }
  sums.insert(sums.end(), values.begin(), values.end());
  RETURN_IF_ERROR(group.Sum(sums));
  Score all{sums[0], static_cast<std::uint64_t>(sums[1]), static_cast<std::uint64_t>(sums[2]),
            own.others};
  std::size_t next = 3;
  for (auto& [name, sum] : all.others) {
    sum = sums[next++];
  }
  std::copy(sums.begin() + static_cast<std::ptrdiff_t>(next), sums.end(), values.begin());
  return all;
}

Result<Evaluation> Evaluate(Training& training, const Samples& samples,
                            const std::function<void()>& meanwhile) {
  training.heartbeat.Phase(kEvaluatedPhase);  // There may be something to wait for.
  RETURN_IF_ERROR(training.learner->ShareBuffers());
  training.heartbeat.Phase(kEvaluatePhase);
  Score score;
  std::vector<std::uint32_t> indices;
  for (std::uint64_t i = training.env.rank; i < samples.count;) {
    indices.clear();
    for (; i < samples.count && indices.size() < training.evaluation_batch;
         i += training.env.world_size) {
      indices.push_back(static_cast<std::uint32_t>(i));
    }
    ASSIGN_OR_RETURN(const Score part, training.evaluate(samples, indices));
    score += part;
    if (meanwhile) {
      meanwhile();
    }
  }
  // A rank without a share adds zeros under the names that the others' metrics have.
  if (const std::uint32_t first = 0; score.samples == 0 && samples.count > 0) {
    ASSIGN_OR_RETURN(const Score named, training.evaluate(samples, {&first, 1}));
    for (const auto& [name, sum] : named.others) {
      score.others[name] = 0;
    }
  }
  training.heartbeat.Phase(kEvaluatedPhase);
  ASSIGN_OR_RETURN(const Score sum, meanwhile&& training.IsRankZero()
                                        ? SumMeanwhile(*training.group, score, meanwhile)
                                        : SumOverRanks(*training.group, score));
  const auto samples_seen = static_cast<double>(sum.samples);
  Evaluation means{{"loss", sum.loss_sum / samples_seen}};
  if (training.dataset.task.classifies()) {
    means["accuracy"] = static_cast<double>(sum.correct) / samples_seen;
  }
  for (const auto& [name, value] : sum.others) {
    means.emplace(name, value / samples_seen);
  }
  return means;
}

Result<void> Validation::AfterStep(const FinishedStep& /*step*/) {
  const auto every = static_cast<std::uint64_t>(training_.config.run.validate_every);
  TrainState& state = training_.state;
  training_.best = false;
  training_.validated = state.step % every == 0;
  if (!training_.validated) {
    return {};
  }
  const NamedRange range("validation");
  const Dataset& data = training_.dataset;
  ASSIGN_OR_RETURN(const Evaluation result,
                   Evaluate(training_, data.validation ? *data.validation : data.test));
  training_.best = NoteValidation(state.metrics, state.step, result.at("loss"));
  const auto patience = static_cast<std::uint64_t>(training_.config.run.early_stop);
  std::array<double, 1> enough = {
      training_.IsRankZero() && EnoughValidations(state.metrics, patience) ? 1.0 : 0.0};
  RETURN_IF_ERROR(training_.group->Sum(enough));
  training_.stopped_early = enough[0] > 0;
  if (training_.IsRankZero()) {
    Report(result);
  }
  return {};
}

void Validation::Report(const Evaluation& result) {
  TrainState& state = training_.state;
  std::string line = Format("validation at step %llu on the %s: loss %.4f",
                            static_cast<unsigned long long>(state.step),
                            training_.dataset.validation_is.c_str(), result.at("loss"));
  std::vector<Scalar> curves;
  for (const auto& [name, value] : result) {
    curves.push_back({"validation/" + name, value});
    if (name == "accuracy" && training_.dataset.task.classifies()) {
      line += Format(", accuracy %.2f%%", 100 * value);
    } else if (name != "loss") {
      line += ", " + name + Format(" %.4g", value);
    }
  }
  training_.curves.Append(CurveRecord(state.step, curves));
  if (training_.best) {
    line += " (the best so far)";
  } else if (state.metrics.count(kBestLoss) > 0) {
    line += Format(" (best %.4f at step %.0f, %.0f ago)", state.metrics[kBestLoss],
                   state.metrics[kBestStep], state.metrics[kSinceBest]);
  }
  training_.Say(LogLevel::kInfo, line);
  if (training_.stopped_early) {
    Log(LogLevel::kInfo, "stopping early: " + std::to_string(training_.config.run.early_stop) +
                             " validations in a row without a gain");
  }
}

}  // namespace ddprun
