#include "trainer/warm_up.h"

#include <algorithm>
#include <exception>

#include "trainer/data/entries.h"
#include "trainer/device/choose_device.h"
#include "trainer/device/gpu_plugin.h"
#include "trainer/group/process_group.h"
#include "trainer/learning/model_learner.h"
#include "trainer/learning/torch_settings.h"
#include "trainer/models/entries.h"

namespace ddprun {
namespace {

// Normalising a batch takes more than one.
constexpr std::int64_t kFewest = 2;
// A rank's whole batch, for which oneDNN then has the kernels; of a large one a part.
constexpr std::int64_t kMost = 64;

void Clear(const Task& task, std::size_t samples, const BatchRoom& room) {
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    std::fill_n(room.inputs[i], samples * NumbersIn(task.inputs[i]), 0.0F);
  }
  if (room.targets != nullptr) {
    std::fill_n(room.targets, samples * NumbersIn(task.target), 0.0F);
  }
  if (room.labels != nullptr) {
    std::fill_n(room.labels, samples, 0);
  }
}

Result<void> Step(const TrainConfig& config) {
  LearnerOptions options;
  options.task = FindDataset(config.dataset)->task(config.data_arguments);
  options.model_arguments = config.model_arguments;
  options.optimizer = config.optimizer_options;
  options.clip_norm = config.learning.clip_norm.value_or(0);
  options.loss = *ParseLoss(config.learning.loss);
  options.freeze = config.run.freeze;
  ASSIGN_OR_RETURN(const auto group, ProcessGroup::Join({}, {}));
  ModelLearner learner(*FindModel(config.model), options, *group);
  RETURN_IF_ERROR(learner.Start({}, 0));
  const auto samples = static_cast<std::size_t>(std::clamp(config.batch, kFewest, kMost));
  RETURN_IF_ERROR(learner.MakeRoom(samples, samples));
  Clear(options.task, samples, learner.room(0));
  RETURN_IF_ERROR(learner.Backward({.count = samples, .global_count = samples}));
  return learner.Update(0);
}

}  // namespace

void WarmUp(const TrainConfig& config) {
  SetUpLibtorch(1);
  if (MayUseGpu(config.device_spec, config.backend_choice)) {
    const Result<GpuPlugin> plugin = GpuPlugin::Load();
    if (plugin || plugin.error().kind != ErrorKind::kNotFound) {
      return;  // Without its file nothing was loaded, and the workers train on the CPU.
    }
  }
  try {
    (void)Step(config);
  } catch (const std::exception&) {
    // The workers will meet it, and say it.
  }
}

}  // namespace ddprun
