#include "trainer/start_log.h"

#include <cstdio>

#include "common/log.h"
#include "trainer/data/sampler.h"

namespace ddprun {
namespace {

void LogDevice(const Device& device) {
  if (!device.note.empty()) {
    Log(LogLevel::kInfo, device.note);
  }
  if (!device.plugin) {
    return;
  }
  const Result<DeviceFacts> gpu = device.plugin->Describe(device.index);
  if (!gpu) {
    Log(LogLevel::kWarning, gpu.error().message);
    return;
  }
  constexpr double kGiB = 1 << 30;
  char memory[64];
  std::snprintf(memory, sizeof memory, ", %.1f of %.1f GiB free",
                static_cast<double>(gpu->free_bytes) / kGiB,
                static_cast<double>(gpu->total_bytes) / kGiB);
  Log(LogLevel::kInfo,
      "computing on GPU " + std::to_string(device.index) + " (" + gpu->name + memory + ")");
}

}  // namespace

void LogStart(const TrainConfig& config, const WorkerEnv& env, const Device& device,
              const std::string& group_note, const StartPlan& plan, std::uint64_t largest_part) {
  LogDevice(device);
  if (!group_note.empty()) {
    Log(LogLevel::kInfo, group_note);
  }
  for (const std::string& note : plan.notes) {
    Log(LogLevel::kInfo, note);
  }
  for (const Skew& skew : config.run.skews) {
    Log(LogLevel::kInfo, "rank " + std::to_string(skew.rank) + " is made slower by " +
                             std::to_string(skew.by.count()) + " ms in every step (--skew)" +
                             (skew.rank < env.world_size ? "" : ", but there is none"));
  }
  if (config.run.no_sync) {
    Log(LogLevel::kWarning,
        "gradients are not averaged (--no-sync): each rank trains a model of its own on its share; "
        "checkpoints are rank 0's");
  }
  const std::uint64_t share = LargestShare(plan.state.global_batch, env.world_size);
  if (largest_part < share) {
    Log(LogLevel::kInfo,
        "each rank learns from its " + std::to_string(share) +
            " samples of a step in parts of at most " + std::to_string(largest_part) +
            ", whose gradients add up" +
            (config.learning.cuda_graph ? "; --cuda-graph records only steps of one part: none here"
                                        : ""));
  }
  const std::string where = " (" + std::to_string(env.world_size) +
                            (env.world_size == 1 ? " rank" : " ranks") + ", global batch " +
                            std::to_string(plan.state.global_batch) + ", checkpoints in " +
                            config.checkpoint_dir.string() + ")";
  if (plan.kind != StartKind::kFresh) {
    Log(LogLevel::kInfo, "resumed at step " + std::to_string(plan.state.step) + ", epoch " +
                             std::to_string(plan.state.epoch + 1) + " of " +
                             std::to_string(config.epochs) + where);
  } else {
    Log(LogLevel::kInfo, "training " + config.model + " on " + config.dataset + where);
  }
}

}  // namespace ddprun
