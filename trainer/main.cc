// ddprun-train: one worker of a distributed training, or a training of one process.
#include <algorithm>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "common/log.h"
#include "proto/worker_env.h"
#include "trainer/data/entries.h"
#include "trainer/extras/staging.h"
#include "trainer/loop/loop.h"
#include "trainer/models/entries.h"
#include "trainer/options/config.h"
#include "trainer/warm_up.h"
#include "trainer/worker_process.h"

namespace ddprun {
namespace {

void LimitTrainingSet(const TrainConfig& config, Dataset& dataset) {
  if (config.limit_train) {
    dataset.train.count = static_cast<std::uint32_t>(
        std::min<std::int64_t>(dataset.train.count, *config.limit_train));
  }
}

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
  if (dataset) {
    LimitTrainingSet(config, *dataset);
  }
  if (dataset && config.run.validation_samples > 0) {
    RETURN_IF_ERROR(
        SplitValidation(*dataset, static_cast<std::uint32_t>(config.run.validation_samples)));
  }
  return dataset;
}

const WorkerProgram kTrain = {
    .name = "ddprun-train",
    .parse = Parse,
    .most_threads = [](const TrainConfig& config) { return FindModel(config.model)->most_threads; },
    .warm_up = WarmUp,
    .train =
        [](Training& training, TrainingSteps& steps) {
          return TrainModel(training, steps,
                            [&] { return LoadData(training.config, training.env); });
        }};

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  ddprun::EndProcess(ddprun::RunWorker(ddprun::kTrain, argc, argv));
}
