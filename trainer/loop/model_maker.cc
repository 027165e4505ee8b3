#include "trainer/loop/model_maker.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "trainer/models/entries.h"

namespace ddprun {
namespace {

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

}  // namespace

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

}  // namespace ddprun
