#include "trainer/config.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <sstream>

#include "proto/exit_code.h"
#include "trainer/datasets/dataset.h"
#include "trainer/models/model.h"

namespace ddprun {
namespace {

constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::int64_t kMaxEpochs = 1'000'000;

template <class Entries>
std::string Names(const Entries& entries) {
  std::string names;
  for (const auto& entry : entries) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

void AddOptions(CLI::App& app, TrainConfig& config) {
  // A script's flags can be overruled by more of them.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--model", config.model, "Model: " + Names(KnownModels()))->capture_default_str();
  app.add_option("--dataset", config.dataset, "Data set: " + Names(KnownDatasets()))
      ->capture_default_str();
  app.add_option("--data-root", config.data_root,
                 "Directory of the data set's files (default: the data that came along)");
  app.add_option("--epochs", config.epochs, "Times through the training set")
      ->capture_default_str();
  app.add_option("--batch", config.batch, "Samples per optimizer step on each rank")
      ->capture_default_str();
  app.add_option("--lr", config.lr, "Adam's learning rate")->capture_default_str();
  app.add_option("--seed", config.seed, "Decides initial parameters and sample order")
      ->capture_default_str();
  app.add_option("--checkpoint-dir", config.checkpoint_dir,
                 "Where checkpoints are kept (default: checkpoints/<dataset>-<model>)");
  app.add_option("--checkpoint-every", config.checkpoint_every,
                 "Steps between checkpoints, or seconds as 30s; also at each epoch's end")
      ->capture_default_str();
  app.add_option("--resume", config.resume,
                 "auto: from the newest valid checkpoint, else afresh; must: fail if there is "
                 "none; never: afresh")
      ->capture_default_str();
  app.add_option("--keep-last", config.keep_last, "Checkpoints to keep (at least 2)")
      ->capture_default_str();
  app.add_option("--limit-train", config.limit_train, "Use only the first N training samples");
  app.add_option("--metrics", config.metrics, "Append progress to this file, one JSON per line");
  app.add_option("--dump-parameters", config.dump_parameters,
                 "Write the final parameters to this file (safetensors)");
  app.add_option("--sample-log", config.sample_log,
                 "Write which samples each step used to files in this directory, one per "
                 "generation and rank");
  app.add_option(
         "--threads", config.threads,
         "Threads per rank; 0: cores / ranks on this node, as far as the model has a use for "
         "them. OMP_NUM_THREADS wins")
      ->capture_default_str();
  app.add_option("--progress-every", config.progress_every,
                 "Seconds between progress lines (default: 1, or 0.2 on a terminal)");
  app.add_option("--collective-timeout", config.collective_timeout,
                 "Seconds after which a silent peer counts as gone")
      ->capture_default_str();
  app.add_option("--bucket-mib", config.bucket_mib,
                 "Gradients are all-reduced in buckets of this many MiB during backward")
      ->capture_default_str();
  app.set_version_flag("--version",
                       "ddprun-train " DDPRUN_VERSION " (libtorch " DDPRUN_LIBTORCH_VERSION ")");
}

void CheckRange(std::vector<std::string>& problems, const std::string& flag, std::int64_t value,
                std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    problems.push_back(flag + " must be " + std::to_string(least) + " to " + std::to_string(most) +
                       ", not " + std::to_string(value));
  }
}

EarlyExit WrongCommandLine(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) {
    text += "ddprun-train: " + problem + "\n";
  }
  return {kExitUsage, text + "ddprun-train: nothing was started; see ddprun-train --help\n"};
}

}  // namespace

std::optional<CheckpointInterval> ParseCheckpointInterval(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || value == 0 || value > 1'000'000'000) {
    return std::nullopt;
  }
  if (parsed == end) {
    return CheckpointInterval{.steps = value};
  }
  if (parsed + 1 == end && *parsed == 's') {
    return CheckpointInterval{.time = std::chrono::seconds(value)};
  }
  return std::nullopt;
}

std::optional<ResumeMode> ParseResumeMode(const std::string& text) {
  if (text == "auto") {
    return ResumeMode::kAuto;
  }
  if (text == "never") {
    return ResumeMode::kNever;
  }
  if (text == "must") {
    return ResumeMode::kMust;
  }
  return std::nullopt;
}

std::vector<std::string> Problems(const TrainConfig& config) {
  std::vector<std::string> problems;
  if (FindModel(config.model) == nullptr) {
    problems.push_back("--model: there is no '" + config.model +
                       "'; known: " + Names(KnownModels()));
  }
  if (FindDataset(config.dataset) == nullptr) {
    problems.push_back("--dataset: there is no '" + config.dataset +
                       "'; known: " + Names(KnownDatasets()));
  }
  CheckRange(problems, "--epochs", config.epochs, 1, kMaxEpochs);
  CheckRange(problems, "--batch", config.batch, 1, kMaxBatch);
  CheckRange(problems, "--seed", config.seed, 0, INT64_MAX);
  CheckRange(problems, "--keep-last", config.keep_last, 2, 32);
  CheckRange(problems, "--threads", config.threads, 0, 1024);
  CheckRange(problems, "--collective-timeout", config.collective_timeout, 1, 86'400);
  if (config.limit_train) {
    CheckRange(problems, "--limit-train", *config.limit_train, 1, INT32_MAX);
  }
  if (config.progress_every && !(*config.progress_every >= 0 && *config.progress_every <= 3'600)) {
    problems.push_back("--progress-every must be a number of seconds from 0 to 3600");
  }
  if (!std::isfinite(config.lr) || config.lr <= 0) {
    problems.push_back("--lr must be a number above 0");
  }
  if (!(config.bucket_mib >= 0.0001 && config.bucket_mib <= 4096)) {
    problems.push_back("--bucket-mib must be 0.0001 to 4096");
  }
  if (!ParseCheckpointInterval(config.checkpoint_every)) {
    problems.push_back("--checkpoint-every must be steps (200) or seconds (30s), not '" +
                       config.checkpoint_every + "'");
  }
  if (!ParseResumeMode(config.resume)) {
    problems.push_back("--resume must be auto, never or must, not '" + config.resume + "'");
  }
  return problems;
}

std::variant<TrainConfig, EarlyExit> Parse(int argc, const char* const* argv) {
  TrainConfig config;
  CLI::App app(
      "Trains a model with distributed data parallelism (libtorch, Gloo), from a checkpoint where\n"
      "there is one. Run it under ddprun, under torchrun, or alone.",
      "ddprun-train");
  AddOptions(app, config);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    std::ostringstream ignored;
    app.exit(success, text, ignored);
    return EarlyExit{kExitOk, text.str()};
  } catch (const CLI::ExtrasError&) {
    return WrongCommandLine({"unknown argument '" + app.remaining().front() + "'"});
  } catch (const CLI::ParseError& error) {
    return WrongCommandLine({error.what()});
  }
  if (const std::vector<std::string> problems = Problems(config); !problems.empty()) {
    return WrongCommandLine(problems);
  }
  config.resume_mode = *ParseResumeMode(config.resume);
  config.checkpoint_interval = *ParseCheckpointInterval(config.checkpoint_every);
  if (config.data_root.empty()) {
    config.data_root = BundledDatasetRoot(config.dataset);
  }
  if (config.checkpoint_dir.empty()) {
    config.checkpoint_dir =
        std::filesystem::path("checkpoints") / (config.dataset + "-" + config.model);
  }
  return config;
}

}  // namespace ddprun
