#include "trainer/loop/loop.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "trainer/data/entries.h"
#include "trainer/data/sampler.h"
#include "trainer/learning/model_learner.h"
#include "trainer/loop/blocking_tasks.h"
#include "trainer/loop/start.h"
#include "trainer/models/entries.h"

namespace ddprun {
namespace {

// All ranks wait for the slowest one.
Result<void> LoadData(Training& training, std::function<Result<Dataset>()> load) {
  const std::string& name = training.config.dataset;
  const DatasetEntry& entry = *FindDataset(name);
  const auto loaded = std::make_shared<std::optional<Dataset>>();
  RETURN_IF_ERROR(
      AwaitTogether(training, {.what = "the data set (" + name + ") is being " +
                                       (entry.reads_files ? "loaded" : "made in memory"),
                               .work = [load = std::move(load), loaded]() -> Result<void> {
                                 ASSIGN_OR_RETURN(*loaded, load());
                                 return {};
                               },
                               .on_disk = entry.reads_files}));
  if (!*loaded) {
    return Error{ErrorKind::kUnavailable, "a peer of rank " + std::to_string(training.env.rank) +
                                              " has no data (see that rank's own error)"};
  }
  training.dataset = std::move(**loaded);
  // Bundled data sets are installed with the program, so they are hardly on a disk that hangs.
  training.samples_on_disk =
      entry.reads_files && training.config.data_root != BundledDatasetRoot(entry.bundled);
  training.final_sets = {{"train", &training.dataset.train}, {"test", &training.dataset.test}};
  return CompareSamples(training);
}

Result<void> CheckPrecision(const Training& training) {
  if (training.config.learning.precision != Precision::kFloat16) {
    return {};
  }
  if (training.device.kind == DeviceKind::kCpu) {
    return Error{ErrorKind::kInvalid,
                 "--autocast=fp16 is for GPUs, and this rank computes on the CPU; --autocast=bf16 "
                 "is for both"};
  }
  if (!training.config.run.split_devices.empty()) {
    return Error{ErrorKind::kInvalid, "--autocast=fp16 is not for a model on --split-devices"};
  }
  return {};
}

// The model of --model becomes the training's learner, and scores its evaluations. kInvalid: the
// flags do not fit this device or model. kSystem: the model cannot be made.
Result<ModelLearner*> MakeLearner(Training& training) {
  LearnerOptions options{
      .config = training.config, .task = training.dataset.task, .device = training.device};
  RETURN_IF_ERROR(CheckPrecision(training));
  if (training.config.learning.cuda_graph) {
    if (!training.device.plugin) {
      return Error{ErrorKind::kInvalid,
                   "--cuda-graph is for GPUs, and this rank computes on the CPU"};
    }
    options.graph = training.device.plugin->MakeStepGraph();
  }
  const ModelEntry& model = *FindModel(training.config.model);
  std::unique_ptr<ModelLearner> learner;
  try {
    learner = std::make_unique<ModelLearner>(model, options, *training.group);
  } catch (const std::exception& error) {  // The GPU's memory, perhaps.
    const std::string text = error.what();
    return Error{ErrorKind::kSystem, "cannot make the model: " + text.substr(0, text.find('\n'))};
  }
  if (!learner->HasParameters()) {
    return Error{ErrorKind::kInvalid, "--freeze leaves no parameter to train"};
  }
  training.evaluation_batch = model.evaluation_batch;
  training.evaluate = [&training, at = learner.get()](
                          const Samples& set,
                          std::span<const std::uint32_t> indices) -> Result<Score> {
    {
      const ReadWatch::Reading reading(training.reads);
      RETURN_IF_ERROR(set.gather(indices, std::nullopt, at->room(ModelLearner::kEvaluationSlot)));
    }
    return at->Evaluate(indices.size());
  };
  ModelLearner* const made = learner.get();
  training.learner = std::move(learner);
  return made;
}

// This rank's samples from the training's state on. Fills the learner's memory, so it must be
// destroyed first.
Result<std::unique_ptr<BatchFeed>> MakeFeed(Training& training, ModelLearner& learner) {
  const std::uint64_t part = training.LargestPart();
  RETURN_IF_ERROR(learner.MakeRoom(static_cast<std::size_t>(part),
                                   static_cast<std::size_t>(training.evaluation_batch)));
  std::uint64_t numbers = 0;  // Of a batch, to fill.
  for (const Shape& shape : training.dataset.task.inputs) {
    numbers += part * static_cast<std::uint64_t>(NumbersIn(shape));
  }
  return std::make_unique<BatchFeed>(
      training.dataset.train.count,
      training.Feed(part, PrefetchWanted(training.config.learning, numbers)),
      GatherInto(training.dataset.train, {learner.room(0), learner.room(1)}));
}

Part PartOf(const Training& training, const FeedPart& part) {
  const TrainState& state = training.state;
  // These depend only on values that are equal on all ranks.
  const bool whole =
      part.batch.count == std::min<std::uint64_t>(state.global_batch, training.dataset.train.count);
  const bool undivided = LargestShare(part.batch.count, training.env.world_size) <=
                         static_cast<std::uint64_t>(training.config.micro_batch);
  return {.slot = part.slot,
          .count = part.count,
          .global_count = part.batch.count,
          .seed = StepSeed(state.seed, state.step, training.env.rank),
          .first = part.begins_step(),
          .last = part.ends_step(),
          .regular = whole && undivided};
}

Result<void> TakeStep(Training& training, TrainingSteps& steps, ModelLearner& learner) {
  const FeedPart* part = nullptr;
  do {
    ASSIGN_OR_RETURN(part, steps.NextPart());
    RETURN_IF_ERROR(learner.Backward(PartOf(training, *part)));
  } while (!part->ends_step());
  RETURN_IF_ERROR(learner.Update(training.LearningRate()));
  return steps.EndStep();
}

}  // namespace

Result<TrainingEnd> TrainModel(Training& training, TrainingSteps& steps,
                               std::function<Result<Dataset>()> load) {
  RETURN_IF_ERROR(LoadData(training, std::move(load)));
  training.heartbeat.Phase(kRestorePhase);
  ASSIGN_OR_RETURN(ModelLearner* const learner, MakeLearner(training));
  ASSIGN_OR_RETURN(const bool begun, steps.Begin([&] { return MakeFeed(training, *learner); }));
  if (!begun) {
    return TrainingEnd::kFinished;
  }
  while (steps.MoreSteps()) {
    RETURN_IF_ERROR(TakeStep(training, steps, *learner));
  }
  return steps.Finish();
}

}  // namespace ddprun
