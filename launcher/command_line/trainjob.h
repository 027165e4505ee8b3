// --trainjob-progress, and what the pods of a TrainJob are given for it.
#pragma once

#include "launcher/command_line/config.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/raw_flags.h"
#include "proto/worker_env.h"

namespace ddprun {

// Whether this variable lets a program tell Kubeflow's Trainer by itself how far it is.
bool IsForTrainJobProgress(std::string_view variable);

void CheckTrainJobProgress(const RawFlags& raw, Problems& problems);
// Of flags that were checked.
TrainJobServer TrainJobServerOf(const RawFlags& raw, const GetEnv& get_env);

}  // namespace ddprun
