#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "common/text.h"
#include "trainer/data/entries.h"
#include "trainer/models/entries.h"
#include "trainer/options/config.h"

namespace ddprun {
namespace {

constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::int64_t kMaxEpochs = 1'000'000;

void CheckRange(std::vector<std::string>& problems, const std::string& flag, std::int64_t value,
                std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    problems.push_back(flag + " must be " + std::to_string(least) + " to " + std::to_string(most) +
                       ", not " + std::to_string(value));
  }
}

// Of all entries for which `suits` holds.
template <class Entries, class Suits>
std::string SuitingNames(const Entries& entries, Suits suits) {
  std::string names;
  for (const auto* const entry : entries) {
    if (suits(*entry)) {
      names += (names.empty() ? "" : ", ") + std::string(entry->name);
    }
  }
  return names.empty() ? "none" : names;
}

constexpr auto kAny = [](const auto&) { return true; };

// Others that would do, with their own default arguments.
std::string MisfitProblem(const ModelEntry& model, const Arguments& model_arguments,
                          const DatasetEntry& dataset, const Arguments& data_arguments) {
  const Task task = dataset.task(data_arguments);
  const std::string misfit = model.misfit(task, model_arguments);
  if (misfit.empty()) {
    return "";
  }
  const auto model_suits = [&](const ModelEntry& other) {
    return other.misfit(task, *Arguments::Parse("", other.arguments)).empty();
  };
  const auto data_suits = [&](const DatasetEntry& other) {
    return model.misfit(other.task(*Arguments::Parse("", other.arguments)), model_arguments)
        .empty();
  };
  return "--model=" + std::string(model.name) +
         " cannot be trained on --dataset=" + std::string(dataset.name) + ": " + misfit +
         "; data sets that fit it: " + SuitingNames(KnownDatasets(), data_suits) +
         "; models that fit this data: " + SuitingNames(KnownModels(), model_suits);
}

void CheckTask(std::vector<std::string>& problems, const TrainConfig& config) {
  const ModelEntry* const model = FindModel(config.model);
  const DatasetEntry* const dataset = FindDataset(config.dataset);
  if (model == nullptr) {
    problems.push_back("--model: unknown model '" + config.model +
                       "'; known: " + SuitingNames(KnownModels(), kAny));
  }
  if (dataset == nullptr) {
    problems.push_back("--dataset: unknown data set '" + config.dataset +
                       "'; known: " + SuitingNames(KnownDatasets(), kAny));
  } else if (dataset->reads_files && dataset->bundled.empty() && config.data_root.empty()) {
    problems.push_back("--dataset=" + config.dataset +
                       " is not bundled: set --data-root=DIR to the directory of its files");
  }
  if (model == nullptr || dataset == nullptr) {
    return;
  }
  const auto model_arguments = Arguments::Parse(config.model_arg, model->arguments);
  const auto data_arguments = Arguments::Parse(config.data_arg, dataset->arguments);
  if (!model_arguments) {
    problems.push_back("--model-arg of " + config.model + ": " + model_arguments.error().message);
  }
  if (!data_arguments) {
    problems.push_back("--data-arg of " + config.dataset + ": " + data_arguments.error().message);
  }
  if (model_arguments && data_arguments) {
    const std::string misfit = MisfitProblem(*model, *model_arguments, *dataset, *data_arguments);
    if (!misfit.empty()) {
      problems.push_back(misfit);
    }
  }
}

// Whether they are links only a disk knows, which may hang.
std::filesystem::path Named(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::absolute(path, unknown).lexically_normal();
}

// Each would replace what the other has written.
void CheckOutputNames(std::vector<std::string>& problems, const TrainConfig& config) {
  const std::array<std::pair<const char*, const std::filesystem::path&>, 3> outputs{
      {{"--result", config.learning.result},
       {"--dump-parameters", config.dump_parameters},
       {"--metrics", config.metrics}}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [first, one] = outputs[j];
      const auto& [second, other] = outputs[i];
      if (!one.empty() && Named(one) == Named(other)) {
        problems.push_back(std::string(first) + " and " + second + " name one file: '" +
                           one.native() + "'");
      }
    }
  }
}

void CheckOptimizer(std::vector<std::string>& problems, const TrainConfig& config) {
  const std::optional<OptimizerKind> kind = ParseOptimizer(config.optimizer);
  const OptimizerOptions& constants = config.optimizer_options;
  CheckWord(problems, kind.has_value(), "--optimizer", "adam, adamw or sgd", config.optimizer);
  if (!std::isfinite(config.lr) || config.lr <= 0) {
    problems.push_back("--lr must be a number above 0");
  }
  if (config.weight_decay && !(*config.weight_decay >= 0 && *config.weight_decay <= 1)) {
    problems.push_back("--weight-decay must be 0 to 1");
  }
  if (!(constants.momentum >= 0 && constants.momentum < 1)) {
    problems.push_back("--momentum must be at least 0 and below 1");
  }
  if (kind && *kind != OptimizerKind::kSgd && (constants.momentum != 0 || constants.nesterov)) {
    problems.push_back("--momentum and --nesterov are for --optimizer=sgd");
  } else if (constants.nesterov && constants.momentum == 0) {
    problems.push_back("--nesterov needs --momentum");
  }
}

void CheckDevice(std::vector<std::string>& problems, const TrainConfig& config) {
  const std::optional<DeviceSpec> spec = ParseDevice(config.device);
  CheckWord(problems, spec.has_value(), "--device", "auto, cpu, cuda or cuda:N", config.device);
  if (!spec) {
    return;
  }
  const std::optional<BackendChoice> backend = ParseBackend(config.backend);
  if (spec->kind == DeviceKind::kCpu && backend == BackendChoice::kNccl) {
    problems.push_back("--backend=nccl is for GPUs, not for --device=cpu");
  }
  if (spec->kind == DeviceKind::kCuda && backend == BackendChoice::kShm) {
    problems.push_back("--backend=shm is for CPUs, not for --device=" + config.device);
  }
}

// A graph holds what one GPU does by itself or with NCCL.
void CheckCudaGraph(std::vector<std::string>& problems, const TrainConfig& config) {
  if (!config.learning.cuda_graph) {
    return;
  }
  const auto not_with = [&](bool given, const std::string& what, const char* why) {
    if (given) {
      problems.push_back("--cuda-graph is not for " + what + ": " + why);
    }
  };
  not_with(config.device == "cpu", "--device=cpu", "only a GPU can replay a graph");
  not_with(config.backend == "gloo" || config.backend == "shm", "--backend=" + config.backend,
           "gradients would pass through the host, whose work a graph cannot record");
  not_with(config.learning.compress != "off", "--compress",
           "the host unpacks the gradients, which a graph cannot record");
  not_with(!config.run.split_devices.empty(), "--split-devices",
           "a graph is recorded on one device");
}

}  // namespace

std::optional<CheckpointInterval> ParseCheckpointInterval(const std::string& text) {
  if (ParseNumber<double>(text)) {  // Without a unit it is no time.
    const auto steps = ParseNumber<std::uint64_t>(text);
    return steps && *steps > 0 && *steps <= 1'000'000'000
               ? std::optional(CheckpointInterval{.steps = steps})
               : std::nullopt;
  }
  const std::optional<Duration> time = DurationOf(text);
  return time && *time > Duration{0} ? std::optional(CheckpointInterval{.time = time})
                                     : std::nullopt;
}

std::vector<std::string> Problems(const TrainConfig& config) {
  std::vector<std::string> problems;
  if (!config.own_model) {
    CheckTask(problems, config);
    CheckOptimizer(problems, config);
  }
  CheckOutputNames(problems, config);
  CheckLearningOptions(problems, config.learning);
  CheckRange(problems, "--epochs", config.epochs, 1, kMaxEpochs);
  CheckRange(problems, "--batch", config.batch, 1, kMaxBatch);
  CheckRange(problems, "--micro-batch", config.micro_batch, 0, kMaxBatch);
  CheckRange(problems, "--seed", config.seed, 0, INT64_MAX);
  CheckRange(problems, "--keep-last", config.keep_last, 2, 32);
  CheckRange(problems, "--threads", config.threads, 0, 1024);
  CheckCollectiveTimeout(problems, config.collective_timeout);
  if (config.limit_train) {
    CheckRange(problems, "--limit-train", *config.limit_train, 1, INT32_MAX);
  }
  if (!config.progress_every.empty()) {
    CheckTime(problems, "--progress-every", config.progress_every, Duration{0},
              std::chrono::hours(1));
  }
  if (!(config.bucket_mib >= 0.0001 && config.bucket_mib <= 4096)) {
    problems.push_back("--bucket-mib must be 0.0001 to 4096");
  }
  CheckWord(problems, ParseCheckpointInterval(config.checkpoint_every).has_value(),
            "--checkpoint-every", "steps (200) or a time with a unit (30s, 5m)",
            config.checkpoint_every);
  CheckWord(problems, ParseBackend(config.backend).has_value(), "--backend",
            "auto, gloo, shm or nccl", config.backend);
  CheckDevice(problems, config);
  CheckCudaGraph(problems, config);
  const bool resume_known =
      config.resume == "auto" || config.resume == "never" || config.resume == "must";
  CheckWord(problems, resume_known, "--resume", "auto, never or must", config.resume);
  CheckRunOptions(problems, config.run);
  if (!config.run.eval_package.empty() && config.learning.autocast != "off") {
    problems.push_back(
        "--eval-package and --autocast exclude each other: a package computes as it was exported");
  }
  return problems;
}

}  // namespace ddprun
