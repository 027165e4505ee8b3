#include "trainer/loop/validation.h"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "trainer/learning/early_stopping.h"
#include "trainer/profiler/recorder.h"
#include "trainer/tensorboard/curve_file.h"

namespace ddprun {

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
  training_.best = NoteValidation(state.metrics, state.step, result.loss);
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
  const bool classifies = training_.dataset.task.classifies();
  std::vector<Scalar> curves = {{"validation/loss", result.loss}};
  if (classifies) {
    curves.push_back({"validation/accuracy", result.accuracy});
  }
  for (const auto& [name, value] : result.others) {
    curves.push_back({"validation/" + name, value});
  }
  training_.curves.Append(CurveRecord(state.step, curves));
  char text[160];
  std::snprintf(text, sizeof text, "validation at step %llu on the %s: loss %.4f",
                static_cast<unsigned long long>(state.step),
                training_.dataset.validation_is.c_str(), result.loss);
  std::string line = text;
  if (classifies) {
    std::snprintf(text, sizeof text, ", accuracy %.2f%%", 100 * result.accuracy);
    line += text;
  }
  for (const auto& [name, value] : result.others) {
    std::snprintf(text, sizeof text, " %.4g", value);
    line += ", " + name + text;
  }
  if (training_.best) {
    line += " (the best so far)";
  } else if (state.metrics.count(kBestLoss) > 0) {
    std::snprintf(text, sizeof text, " (best %.4f at step %.0f, %.0f ago)",
                  state.metrics[kBestLoss], state.metrics[kBestStep], state.metrics[kSinceBest]);
    line += text;
  }
  training_.Say(LogLevel::kInfo, line);
  if (training_.stopped_early) {
    Log(LogLevel::kInfo, "stopping early: " + std::to_string(training_.config.run.early_stop) +
                             " validations in a row without a gain");
  }
}

}  // namespace ddprun
