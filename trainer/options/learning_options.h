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
  // The optimizer: a checkpoint of another one is refused.
  OptimizerKind kind = OptimizerKind::kAdam;
  // Adam's decay of the mean gradient: at 1 the mean never moves.
  double beta1 = 0.9;
  // Adam's decay of the mean square: too small a value makes steps jump.
  double beta2 = 0.999;
  // Added to Adam's divisor: 0 can divide by zero, a large value damps every step.
  double epsilon = 1e-8;
  // Pulls parameters to zero: too large a value keeps the model from learning.
  double weight_decay = 0;
  // Of SGD only: near 1 the training overshoots; 0: none.
  double momentum = 0;
  // Of SGD with momentum only: looks one step ahead.
  bool nesterov = false;
};

struct LearningOptions {
  // The course of the learning rate: constant, step or cosine.
  std::string schedule = "constant";
  // Steps in which the rate rises: too few can make a large rate diverge; 0: none.
  std::int64_t warmup_steps = 0;
  // Steps between decays, which --schedule=step needs: too few make the rate vanish.
  std::int64_t decay_every = 0;
  // The factor of each decay: 1 changes nothing, near 0 the rate vanishes.
  double decay_factor = 0.1;
  // The limit of the gradients' norm: too small a limit slows learning down; none: nothing is
  // clipped.
  std::optional<double> clip_norm;
  // The gradients' norm is reported, which costs a pass over all of them.
  bool grad_norm = false;
  // The samples at an epoch's end that are fewer than a global batch are never learned from.
  bool drop_last = false;
  // "bf16" or "fp16": the forward has fewer digits; "off": all.
  std::string autocast = "off";
  // "fp16" or "bf16": gradients have fewer digits on their way; "off": all.
  std::string compress = "off";
  // "cross-entropy": float targets are probabilities; other ones give a loss without meaning.
  std::string loss = "auto";
  // An operation without a deterministic implementation is an error, not a source of noise.
  bool deterministic = false;
  // Steps are replayed on a GPU; with work of the host in a step the command line is refused.
  bool cuda_graph = false;
  // "on" for small batches costs more than it saves; "off" for large ones keeps steps waiting.
  std::string prefetch = "auto";
  // The file of the result; empty: none is written.
  std::filesystem::path result;
  // The node-local directory of copied data: one that is too small fails the start; empty: data is
  // read where it is.
  std::filesystem::path stage_dir;
  // The meaning of autocast; as the two below, set by Parse once all texts are valid.
  Precision precision = Precision::kFloat32;
  // The meaning of compress.
  Precision compression = Precision::kFloat32;
  // The meaning of `loss`.
  Loss loss_kind = Loss::kByTargets;
};

void AddLearningOptions(CLI::App& app, LearningOptions& options);
void CheckLearningOptions(std::vector<std::string>& problems, const LearningOptions& options);

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
