// SageMaker's conventions as ddprun-train's flags.
//
// Where one of its variables is set (SM_MODEL_DIR, SM_HPS, SM_CHANNEL_TRAINING, ...), checkpoints
// go to /opt/ml/checkpoints, the published model to SM_MODEL_DIR or /opt/ml/model, the data come
// from SM_CHANNEL_TRAINING, and each hyperparameter is the flag of its name (batch_size:
// --batch-size): from /opt/ml/input/config/hyperparameters.json, SM_HPS, then SM_HP_<NAME>, later
// ones win; the platform's own (sagemaker_...) are left out. Flags given by a person win over all
// of them. DDPRUN_SAGEMAKER_ROOT stands for /opt/ml.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

struct SageMaker {
  std::filesystem::path root;          // "/opt/ml"
  std::vector<std::string> arguments;  // To stand before those of the command line.
};

// nullopt: not on SageMaker. `environment`: NAME=value, ended by a null pointer.
Result<std::optional<SageMaker>> DetectSageMaker(const char* const* environment);

// Why the training failed, in <root>/output/failure; an existing file stays: the first rank
// to fail knows why.
void WriteFailure(const SageMaker& sagemaker, const std::string& text);

}  // namespace ddprun
