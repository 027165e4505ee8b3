// ddprun-train: one worker of a distributed training, or a training of one process.
#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "common/log.h"
#include "proto/worker_env.h"
#include "trainer/data/entries.h"
#include "trainer/device/choose_device.h"
#include "trainer/device/gpu_plugin.h"
#include "trainer/extras/staging.h"
#include "trainer/group/process_group.h"
#include "trainer/learning/matmul.h"
#include "trainer/learning/model_learner.h"
#include "trainer/learning/torch_settings.h"
#include "trainer/loop/loop.h"
#include "trainer/models/entries.h"
#include "trainer/options/config.h"
#include "trainer/worker_process.h"

namespace ddprun {
namespace {

Result<Dataset> LoadFiles(const TrainConfig& config, const WorkerEnv& env) {
  const DatasetEntry& entry = *FindDataset(config.dataset);
  std::filesystem::path root = config.data_root;
  const std::vector<std::string> files = entry.files(root);
  if (!config.learning.stage_dir.empty() && !files.empty()) {
    const StagePlan plan{.source = root,
                         .files = files,
                         .directory = config.learning.stage_dir,
                         .name = config.dataset};
    ASSIGN_OR_RETURN(root, Stage(plan, env.local_rank == 0,
                                 [](const std::string& text) { Log(LogLevel::kInfo, text); }));
  }
  return entry.load(root, config.data_arguments);
}

// The data set of this rank. May take as long as a disk does.
Result<Dataset> LoadData(const TrainConfig& config, const WorkerEnv& env) {
  Result<Dataset> dataset = Error{};
  try {
    dataset = LoadFiles(config, env);
  } catch (const std::bad_alloc&) {
    dataset = Error{ErrorKind::kSystem, "out of memory, while the data set was loaded"};
  }
  if (dataset && config.limit_train) {
    dataset->train.count = static_cast<std::uint32_t>(
        std::min<std::int64_t>(dataset->train.count, *config.limit_train));
  }
  if (dataset && config.run.validation_samples > 0) {
    RETURN_IF_ERROR(
        SplitValidation(*dataset, static_cast<std::uint32_t>(config.run.validation_samples)));
  }
  return dataset;
}

// oneDNN keeps memory for each shape, and the models of this program have few. Those of programs on
// the library may have one for each batch.
void MultiplyWithTheFastest() {
  if (OneDnnIsFaster()) {
    MultiplyWithOneDnn();
  }
}

constexpr std::size_t kFewSamples = 2;  // Normalising a batch takes more than one.
constexpr std::size_t kManySamples = 64;
constexpr std::chrono::milliseconds kQuickStep{5};

Result<void> StepOnZeros(ModelLearner& learner, std::size_t samples) {
  RETURN_IF_ERROR(learner.MakeRoom(samples, samples));  // Zeros.
  RETURN_IF_ERROR(learner.Backward({.count = samples, .global_count = samples}));
  return learner.Update(0);
}

Result<void> StepsOnZeros(const TrainConfig& config) {
  LearnerOptions options{.config = config,
                         .task = FindDataset(config.dataset)->task(config.data_arguments)};
  options.config.run.eval_package.clear();   // A file.
  options.config.run.split_devices.clear();  // GPUs, which no fork survives.
  ASSIGN_OR_RETURN(const auto group, ProcessGroup::Join({}, {}));
  ModelLearner learner(*FindModel(config.model), options, *group);
  RETURN_IF_ERROR(learner.Start({}, 0));
  RETURN_IF_ERROR(StepOnZeros(learner, kFewSamples));
  const auto begin = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(StepOnZeros(learner, kFewSamples));
  // Kernels are made for a number of samples. A small model has those of a whole batch, too; of a
  // large one that would take seconds and gigabytes.
  const auto batch = static_cast<std::size_t>(config.batch);
  return std::chrono::steady_clock::now() - begin < kQuickStep && batch <= kManySamples
             ? StepOnZeros(learner, std::max(batch, kFewSamples))
             : Result<void>{};
}

// The work of the preload process (proto/preload_process.h) before it forks workers:
//
//   a training that may use a GPU | loads the GPU plug-in and calls no CUDA, which no fork survives
//   any other, or no plug-in here | takes steps on zeros, so that workers find all of it made
//
// Never both. libtorch's autograd engine counts devices once, at the first backward pass of a
// process. A worker that is forked after that pass and then loads CUDA fails with
// "device.index() < device_ready_queues_.size() INTERNAL ASSERT FAILED".
//
// Uses one thread, and neither files nor peers. Reports no error: each worker meets it again.
void WarmUp(const TrainConfig& config) {
  SetThreads(1);  // No pool of them: a fork would lose it.
  MultiplyWithTheFastest();
  if (MayUseGpu(config.device_spec, config.backend_choice)) {
    const Result<const GpuPlugin*> plugin = GpuPlugin::Load();
    if (plugin || plugin.error().kind != ErrorKind::kNotFound) {
      return;  // Without its file nothing was loaded, and the workers train on the CPU.
    }
  }
  try {
    (void)StepsOnZeros(config);
  } catch (const std::exception&) {
    // The workers will meet it, and say it.
  }
}

const WorkerProgram kTrain = {
    .name = "ddprun-train",
    .parse = Parse,
    .most_threads = [](const TrainConfig& config) { return FindModel(config.model)->most_threads; },
    .warm_up = WarmUp,
    .train =
        [](Training& training, TrainingSteps& steps) {
          MultiplyWithTheFastest();
          return TrainModel(training, steps,
                            [&] { return LoadData(training.config, training.env); });
        }};

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  ddprun::EndProcess(ddprun::RunWorker(ddprun::kTrain, argc, argv));
}
