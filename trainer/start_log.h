// Lines of rank 0 about a training that begins: its device, notes, parts of steps, where it starts.
#pragma once

#include <cstdint>
#include <string>

#include "proto/worker_env.h"
#include "trainer/device/choose_device.h"
#include "trainer/options/config.h"
#include "trainer/start_plan.h"

namespace ddprun {

// `largest_part`: the most samples of a step that a rank learns from at a time.
void LogStart(const TrainConfig& config, const WorkerEnv& env, const Device& device,
              const std::string& group_note, const StartPlan& plan, std::uint64_t largest_part);

}  // namespace ddprun
