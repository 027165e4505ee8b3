// The flags about how a step is computed and what the learning rate does: part of TrainConfig.
//
// As config.h: adding the flags reads nothing, the problems are all that is wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/schedule.h"

namespace CLI {
class App;
}

namespace ddprun {

enum class Precision { kFloat32, kFloat16, kBFloat16 };
enum class Loss { kByTargets, kCrossEntropy };
enum class OptimizerKind { kAdam, kAdamW, kSgd };

// Which optimizer, with what constants: torch.optim's meanings and defaults. The learning rate is
// given anew at every step.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;  // SGD only.
  bool nesterov = false;
};

struct LearningOptions {
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  std::int64_t decay_every = 0;  // Steps; --schedule=step needs it.
  double decay_factor = 0.1;
  std::optional<double> clip_norm;
  bool grad_norm = false;
  std::string autocast = "off";
  std::string compress = "off";
  std::string loss = "auto";
  bool deterministic = false;
  bool cuda_graph = false;
  std::string prefetch = "auto";
  std::filesystem::path result;     // Empty: none.
  std::filesystem::path stage_dir;  // Empty: data is read where it is.
};

void AddLearningOptions(CLI::App& app, LearningOptions& options);
std::vector<std::string> LearningProblems(const LearningOptions& options);

// Of valid options.
Schedule ScheduleOf(const LearningOptions& options, std::uint64_t total_steps);
// Of --autocast and --compress.
std::optional<Precision> ParsePrecision(const std::string& text);
std::optional<OptimizerKind> ParseOptimizer(const std::string& text);
// Of --loss.
std::optional<Loss> ParseLoss(const std::string& text);
// Whether to fill batches on a thread, for parts of so many numbers.
bool PrefetchWanted(const LearningOptions& options, std::uint64_t numbers);

}  // namespace ddprun
