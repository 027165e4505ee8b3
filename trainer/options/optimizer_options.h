// Which optimizer, with what constants. Values; the learning rate is given anew at every step.
#pragma once

#include <optional>
#include <string_view>

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
  if (name == "adam") {
    return OptimizerKind::kAdam;
  }
  if (name == "adamw") {
    return OptimizerKind::kAdamW;
  }
  if (name == "sgd") {
    return OptimizerKind::kSgd;
  }
  return std::nullopt;
}

}  // namespace ddprun
