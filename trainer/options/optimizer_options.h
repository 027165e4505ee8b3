// Which optimizer, with what constants. Values; the learning rate is given anew at every step.
#pragma once

#include <optional>
#include <string_view>

#include "common/text.h"

namespace ddprun {

enum class OptimizerKind { kAdam, kAdamW, kSgd };

// torch.optim's meanings and defaults.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;  // SGD only.
  bool nesterov = false;
};

inline std::optional<OptimizerKind> ParseOptimizer(std::string_view name) {
  return MeaningOf<OptimizerKind>(name, {{"adam", OptimizerKind::kAdam},
                                         {"adamw", OptimizerKind::kAdamW},
                                         {"sgd", OptimizerKind::kSgd}});
}

}  // namespace ddprun
