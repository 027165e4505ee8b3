// NCCL for a process group's tensors on GPUs, through the plug-in. Included only by files that see
// libtorch anyway.
//
// NCCL's own thread watches every collective: one that fails, or takes longer than the group's
// time-out, ends the process (EndWhenNcclGivesUp); kernels that wait on the GPU for a peer cannot
// be ended otherwise.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "proto/worker_env.h"
#include "trainer/group/group_options.h"
#include "trainer/group/torch_group.h"

namespace ddprun {

// Exceptions of the store pass through. kInvalid: one rank computes on a GPU and another does not,
// or two share one.
Result<void> AgreeOnDevices(c10d::Store& store, const WorkerEnv& env, const GroupOptions& options);

// Connected with all ranks.
Result<void> AddNccl(TorchGroup& torch, const c10::intrusive_ptr<c10d::Store>& store,
                     const WorkerEnv& env, const GroupOptions& options);

// One rank, to see NCCL work.
Result<std::unique_ptr<TorchGroup>> NcclAlone(const WorkerEnv& env, const GroupOptions& options);

}  // namespace ddprun
