// The work of one step, recorded once and from then on started as a whole: CUDA's graphs, where the
// plug-in has them.
//
// A GPU starts thousands of small kernels per step, each launched by itself; a graph is launched at
// once. The recorded work reads and writes the same memory each time: a step that reads its batch
// from one of two places is recorded once for each. Torch-free.
#pragma once

#include <cstddef>
#include <functional>

#include "common/result.h"

namespace ddprun {

class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Runs `work`: its work for the thread's current stream, never the default one, is recorded and
  // not done. Recordings are numbered from 0 in the order of these calls; they use the same memory
  // for what they compute, so only one of them may run at a time. After an error none is of use. An
  // exception of `work` passes through.
  virtual Result<void> Record(const std::function<void()>& work) = 0;
  // Tells the current stream to do recording `number` once more.
  virtual Result<void> Replay(std::size_t number) = 0;
};

}  // namespace ddprun
