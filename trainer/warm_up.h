// The work of the preload process (proto/preload_process.h) before it forks workers:
//
//   a training that may use a GPU | loads the GPU plug-in and calls no CUDA, which no fork survives
//   any other, or no plug-in here | takes one step on zeros, so that workers find all of it made
//
// Never both. libtorch's autograd engine counts devices once, at the first backward pass of a
// process. A worker that is forked after that pass and then loads CUDA fails with
// "device.index() < device_ready_queues_.size() INTERNAL ASSERT FAILED".
//
// Uses one thread, and neither files nor peers. Reports no error: each worker meets it again.
#pragma once

#include "trainer/options/config.h"

namespace ddprun {

void WarmUp(const TrainConfig& config);

}  // namespace ddprun
