#include "trainer/options/learning_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/text.h"
#include "trainer/options/command_line.h"

namespace ddprun {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000'000;
// Filling fewer numbers takes less time than waking a thread to do it.
constexpr std::uint64_t kWorthAThread = 65'536;

}  // namespace

void AddLearningOptions(CLI::App& app, LearningOptions& options) {
  app.add_option("--schedule", options.schedule, "Learning rate: constant, step or cosine");
  app.add_option("--warmup-steps", options.warmup_steps,
                 "Steps over which the learning rate rises to its value");
  app.add_option("--decay-every", options.decay_every,
                 "Steps between decays of the learning rate (--schedule=step)")
      ->default_str("");
  app.add_option("--decay-factor", options.decay_factor,
                 "What each decay multiplies the learning rate by (--schedule=step)");
  app.add_option("--clip-norm", options.clip_norm,
                 "Scale gradients down to this norm over all parameters, if theirs is larger");
  app.add_flag("--grad-norm", options.grad_norm,
               "Report the gradients' norm over all parameters, as --clip-norm does");
  app.add_flag("--drop-last", options.drop_last,
               "Leave out an epoch's last samples that are too few for a whole step: batch norm "
               "needs two on each rank");
  app.add_option("--autocast", options.autocast,
                 "bf16, fp16 (GPUs): forward in 16 bits where libtorch's autocast holds it safe; "
                 "off");
  app.add_option("--compress", options.compress,
                 "Gradients travel between ranks as fp16 or bf16; off: as they are");
  app.add_option("--loss", options.loss,
                 "auto: cross entropy of labels, mean squared error of float targets; "
                 "cross-entropy: float targets are probabilities, of classes along their first "
                 "dimension");
  app.add_flag("--deterministic", options.deterministic,
               "An error instead of any operation without a deterministic implementation");
  app.add_flag("--cuda-graph", options.cuda_graph,
               "On a GPU: record forward and backward of a step once, and replay them");
  app.add_option("--prefetch", options.prefetch,
                 "Gather the next batch on a thread: on, off, or auto (large batches)");
  app.add_option("--stage-dir", options.stage_dir,
                 "Node-local directory: local rank 0 copies the data files there, all read them "
                 "from it");
  app.add_option("--result", options.result, "Rank 0 writes the result to this file as JSON");
}

void CheckLearningOptions(std::vector<std::string>& problems, const LearningOptions& options) {
  const std::optional<ScheduleKind> schedule = ParseSchedule(options.schedule);
  CheckWord(problems, schedule.has_value(), "--schedule", "constant, step or cosine",
            options.schedule);
  if (options.warmup_steps < 0 || options.warmup_steps > kMostSteps) {
    problems.push_back("--warmup-steps must be at least 0");
  }
  if (options.decay_every < 0 || options.decay_every > kMostSteps ||
      (schedule == ScheduleKind::kStep && options.decay_every == 0)) {
    problems.push_back("--decay-every must be at least 1 with --schedule=step");
  }
  if (!(options.decay_factor > 0 && options.decay_factor <= 1)) {
    problems.push_back("--decay-factor must be above 0 and at most 1");
  }
  if (options.clip_norm && !(*options.clip_norm > 0 && *options.clip_norm < 1e30)) {
    problems.push_back("--clip-norm must be a number above 0");
  }
  CheckWord(problems, ParsePrecision(options.autocast).has_value(), "--autocast",
            "off, bf16 or fp16", options.autocast);
  CheckWord(problems, ParsePrecision(options.compress).has_value(), "--compress",
            "off, fp16 or bf16", options.compress);
  CheckWord(problems, ParseLoss(options.loss).has_value(), "--loss", "auto or cross-entropy",
            options.loss);
  const bool prefetch_known =
      options.prefetch == "auto" || options.prefetch == "on" || options.prefetch == "off";
  CheckWord(problems, prefetch_known, "--prefetch", "auto, on or off", options.prefetch);
}

Schedule ScheduleOf(const LearningOptions& options, std::uint64_t total_steps) {
  return {.kind = *ParseSchedule(options.schedule),
          .warmup_steps = static_cast<std::uint64_t>(options.warmup_steps),
          .decay_every = static_cast<std::uint64_t>(std::max<std::int64_t>(1, options.decay_every)),
          .decay_factor = options.decay_factor,
          .total_steps = total_steps};
}

std::optional<Precision> ParsePrecision(const std::string& text) {
  return MeaningOf<Precision>(text, {{"off", Precision::kFloat32},
                                     {"fp16", Precision::kFloat16},
                                     {"bf16", Precision::kBFloat16}});
}

std::optional<OptimizerKind> ParseOptimizer(const std::string& text) {
  return MeaningOf<OptimizerKind>(text, {{"adam", OptimizerKind::kAdam},
                                         {"adamw", OptimizerKind::kAdamW},
                                         {"sgd", OptimizerKind::kSgd}});
}

std::optional<Loss> ParseLoss(const std::string& text) {
  return MeaningOf<Loss>(text,
                         {{"auto", Loss::kByTargets}, {"cross-entropy", Loss::kCrossEntropy}});
}

bool PrefetchWanted(const LearningOptions& options, std::uint64_t numbers) {
  return options.prefetch == "on" || (options.prefetch == "auto" && numbers >= kWorthAThread);
}

}  // namespace ddprun
