// The work of one step, recorded once and from then on started as a whole: CUDA's graphs, where the
// plug-in has them.
//
// A GPU starts thousands of small kernels per step, each told to it by itself; a graph is told at
// once. What is recorded reads and writes the same memory each time. Torch-free.
#pragma once

#include <functional>

#include "common/result.h"

namespace ddprun {

class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Runs `work`: what it tells the thread's current stream, never the default one, is kept and not
  // done. Once per graph; after an error the graph is of no use. What `work` throws passes through.
  virtual Result<void> Record(const std::function<void()>& work) = 0;
  // Tells the current stream to do it, once more.
  virtual Result<void> Replay() = 0;
};

}  // namespace ddprun
