#include "trainer/options/config.h"

#include <CLI/CLI.hpp>

#include "common/format.h"
#include "common/text.h"
#include "trainer/data/entries.h"
#include "trainer/models/entries.h"

namespace ddprun {
namespace {

template <class Entries>
std::string Names(const Entries& entries) {
  return Joined(entries, ", ", [](const auto* entry) { return entry->name; });
}

void AddTaskOptions(CLI::App& app, TrainConfig& config) {
  app.add_option("--model", config.model, "Model: " + Names(KnownModels()));
  app.add_option("--model-arg", config.model_arg,
                 "NAME=VALUE,... of the model's arguments, such as heads=4,layers=1");
  app.add_option("--dataset", config.dataset,
                 "Data set: " + Names(KnownDatasets()) + " (default: the model's)")
      ->default_str("");
  app.add_option("--data-arg", config.data_arg,
                 "NAME=VALUE,... of the data set's arguments, such as train=1000");
  app.add_option("--data-root", config.data_root,
                 "Directory of the data set's files (default: the bundled data)");
  app.add_option("--epochs", config.epochs, "Times through the training set");
  app.add_option("--batch", config.batch,
                 "Samples per optimizer step on each rank (default: the model's)")
      ->default_str("");
  app.add_option("--micro-batch", config.micro_batch,
                 "The most samples of one forward: a larger share of a step is learned from in "
                 "parts whose gradients add up (default: as many as --batch)")
      ->default_str("");
  app.add_option("--seed", config.seed, "Decides initial parameters and sample order");
  app.add_option("--limit-train", config.limit_train, "Use only the first N training samples");
}

void AddOptimizerOptions(CLI::App& app, TrainConfig& config) {
  app.add_option("--optimizer", config.optimizer, "adam, adamw or sgd (default: the model's)")
      ->default_str("");
  app.add_option("--lr", config.lr, "Learning rate (default: the model's)")->default_str("");
  app.add_flag("--scale-lr", config.scale_lr,
               "Multiply the learning rate by the number of --batch in a global batch");
  app.add_option("--weight-decay", config.weight_decay,
                 "Weight decay (default: 0.01 for adamw, else 0)");
  OptimizerOptions& constants = config.optimizer_options;
  app.add_option("--momentum", constants.momentum, "Momentum of sgd");
  app.add_flag("--nesterov", constants.nesterov, "Nesterov's momentum of sgd");
}

void AddCheckpointOptions(CLI::App& app, TrainConfig& config) {
  app.add_option("--checkpoint-dir", config.checkpoint_dir,
                 "Where checkpoints are kept (default: checkpoints/<dataset>-<model>)");
  app.add_option("--checkpoint-every", config.checkpoint_every,
                 "Steps between checkpoints, or a time as 30s or 5m; also at each epoch's end");
  app.add_option("--resume", config.resume,
                 "auto: from the newest valid checkpoint, else afresh; must: fail if there is "
                 "none; never: afresh");
  app.add_option("--keep-last", config.keep_last, "Checkpoints to keep (at least 2)");
}

void AddProcessOptions(CLI::App& app, TrainConfig& config) {
  app.add_option(
      "--metrics", config.metrics,
      "Append progress to this file, one JSON per line; none: do not (default: metrics.jsonl "
      "in --checkpoint-dir)");
  app.add_option("--dump-parameters", config.dump_parameters,
                 "Write the final parameters to this file (safetensors)");
  app.add_option("--sample-log", config.sample_log,
                 "Write which samples each step used to files in this directory, one per "
                 "generation and rank");
  app.add_option(
      "--threads", config.threads,
      "Threads per rank; 0: cores / ranks on this node, as far as the model has a use for "
      "them. OMP_NUM_THREADS overrides it");
  app.add_option("--progress-every", config.progress_every,
                 "Time between progress lines: 0.5, 10s, 1m (default: 1, or 0.2 on a terminal)")
      ->type_name("DURATION");
  app.add_option("--collective-timeout", config.collective_timeout, kCollectiveTimeoutHelp)
      ->type_name("DURATION");
  app.add_option("--backend", config.backend,
                 "auto: NCCL between GPUs, else shared memory where all ranks are on one node, "
                 "else Gloo; gloo; shm; nccl");
  app.add_option("--device", config.device,
                 "auto: this local rank's GPU where there is one, else the CPU; cpu; cuda: the "
                 "GPU or an error; cuda:N: this one");
  app.add_option("--bucket-mib", config.bucket_mib,
                 "Gradients are all-reduced in buckets of this many MiB during backward");
  app.set_version_flag("--version",
                       "ddprun-train " DDPRUN_VERSION " (libtorch " DDPRUN_LIBTORCH_VERSION ")");
}

// Settings that the command line left to the model.
void FollowRecipe(const CLI::App& app, TrainConfig& config) {
  const ModelEntry* const model = FindModel(config.model);
  if (model == nullptr) {
    return;
  }
  const Recipe& recipe = model->recipe;
  if (app.count("--dataset") == 0) {
    config.dataset = recipe.dataset;
  }
  if (app.count("--optimizer") == 0) {
    config.optimizer = recipe.optimizer;
  }
  if (app.count("--lr") == 0) {
    config.lr = recipe.lr;
  }
  if (app.count("--batch") == 0) {
    config.batch = recipe.batch;
  }
}

// Also where one is what another flag names.
void NamePaths(TrainConfig& config) {
  if (config.checkpoint_dir.empty()) {
    config.checkpoint_dir =
        std::filesystem::path("checkpoints") / (config.dataset + "-" + config.model);
  }
  if (config.metrics.empty()) {
    config.metrics = config.checkpoint_dir / "metrics.jsonl";
  } else if (config.metrics == "none") {
    config.metrics.clear();
  }
}

// The meaning of valid texts, and the defaults that depend on other flags.
void Resolve(TrainConfig& config) {
  config.backend_choice = *ParseBackend(config.backend);
  config.device_spec = *ParseDevice(config.device);
  config.checkpoint_interval = *ParseCheckpointInterval(config.checkpoint_every);
  config.peer_timeout = *DurationOf(config.collective_timeout);
  config.progress_interval = DurationOf(config.progress_every);
  if (config.micro_batch == 0) {
    config.micro_batch = config.batch;
  }
  config.learning.precision = *ParsePrecision(config.learning.autocast);
  config.learning.compression = *ParsePrecision(config.learning.compress);
  config.learning.loss_kind = *ParseLoss(config.learning.loss);
  config.run.schedule = *ParseProfileSchedule(config.run.profile_schedule);
  config.run.skews = *ParseSkews(config.run.skew);
}

// Of one of our models.
void ResolveModel(TrainConfig& config) {
  const DatasetEntry& dataset = *FindDataset(config.dataset);
  config.model_arguments = *Arguments::Parse(config.model_arg, FindModel(config.model)->arguments);
  config.data_arguments = *Arguments::Parse(config.data_arg, dataset.arguments);
  if (config.data_root.empty() && dataset.reads_files) {
    config.data_root = BundledDatasetRoot(dataset.bundled);
  }
  OptimizerOptions& optimizer = config.optimizer_options;
  optimizer.kind = *ParseOptimizer(config.optimizer);
  optimizer.weight_decay =
      config.weight_decay.value_or(optimizer.kind == OptimizerKind::kAdamW ? 0.01 : 0);
}

// Flags about our models, and what a program with a model of its own does in its code.
constexpr const char* kOfOurModels[] = {
    "--model",        "--model-arg", "--dataset",       "--data-arg",  "--data-root",
    "--optimizer",    "--lr",        "--weight-decay",  "--momentum",  "--nesterov",
    "--clip-norm",    "--grad-norm", "--loss",          "--freeze",    "--validation-samples",
    "--eval-package", "--stage-dir", "--split-devices", "--cuda-graph"};

// "width=64,heads=4"
std::string SharedFlags(const std::vector<ProgramFlag>& flags) {
  std::string text;
  for (const ProgramFlag& flag : flags) {
    if (flag.same_on_all_ranks) {
      text += (text.empty() ? "" : ",") + flag.name + "=" + flag.value;
    }
  }
  return text;
}

void AddAllOptions(CLI::App& app, TrainConfig& config) {
  // A script's flags can be overruled by more of them.
  app.option_defaults()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->always_capture_default();
  AddTaskOptions(app, config);
  AddOptimizerOptions(app, config);
  AddLearningOptions(app, config.learning);
  AddCheckpointOptions(app, config);
  AddProcessOptions(app, config);
  AddRunOptions(app, config.run);
}

}  // namespace

std::variant<TrainConfig, EarlyExit> Parse(int argc, const char* const* argv) {
  TrainConfig config;
  CLI::App app(
      "Trains a model with distributed data parallelism (libtorch, Gloo), from a checkpoint where\n"
      "there is one. Run it under ddprun, under torchrun, or alone.",
      "ddprun-train");
  AddAllOptions(app, config);
  if (const auto exit = ParseWords(app, argc, argv)) {
    return *exit;
  }
  FollowRecipe(app, config);
  NamePaths(config);
  if (const std::vector<std::string> problems = Problems(config); !problems.empty()) {
    return WrongCommandLine(app, problems);
  }
  Resolve(config);
  ResolveModel(config);
  return config;
}

std::variant<TrainConfig, EarlyExit> ParseProgram(TrainConfig config,
                                                  const std::string& description, int argc,
                                                  const char* const* argv) {
  CLI::App app(description, config.model);
  AddAllOptions(app, config);
  for (const char* const name : kOfOurModels) {
    app.remove_option(app.get_option(name));
  }
  app.set_version_flag("--version", config.model + " (ddprun " DDPRUN_VERSION
                                                   ", libtorch " DDPRUN_LIBTORCH_VERSION ")");
  app.get_option("--batch")
      ->description("Samples per optimizer step on each rank")
      ->capture_default_str();
  app.get_option("--checkpoint-dir")
      ->description("Where checkpoints are kept (default: checkpoints/" + config.model + ")");
  for (ProgramFlag& flag : config.program_flags) {
    try {
      app.add_option("--" + flag.name, flag.value, flag.help)->group("Of " + config.model);
    } catch (const CLI::ConstructionError& error) {
      return WrongCommandLine(
          app, {"the program's flag '" + flag.name + "' needs another name: " + error.what()});
    }
  }
  if (const auto exit = ParseWords(app, argc, argv)) {
    return *exit;
  }
  config.own_model = true;
  config.program_arguments = SharedFlags(config.program_flags);
  if (config.checkpoint_dir.empty()) {
    config.checkpoint_dir = std::filesystem::path("checkpoints") / config.model;
  }
  NamePaths(config);
  std::vector<std::string> problems = Problems(config);
  if (config.model.find('/') != std::string::npos) {
    problems.push_back("the program's name '" + config.model +
                       "' has a '/': its checkpoints would lie elsewhere");
  }
  if (config.learning.autocast == "fp16") {
    problems.push_back(
        "--autocast=fp16 needs a scale of the loss, which a program's own optimizers do not know: "
        "set --autocast=bf16");
  }
  if (!problems.empty()) {
    return WrongCommandLine(app, problems);
  }
  Resolve(config);
  return config;
}

}  // namespace ddprun
