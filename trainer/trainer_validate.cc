// Validation on the way: how good the model is on samples that it does not learn from.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "common/log.h"
#include "trainer/learning/early_stopping.h"
#include "trainer/trainer.h"

namespace ddprun {

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

}  // namespace ddprun
