// Sums across nodes, of what each node has summed in its shared memory.
//
// Two nodes send each other one message; more take part in an all-reduce of Gloo, in whose order
// numbers are then added. Included only by files that see libtorch anyway.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "trainer/group/shared_world.h"

namespace ddprun {

// `leaders`: of the ranks that are rank 0 of a node's SharedWorld, in any order. Null on the
// others, where the result is never called.
SharedWorld::Across AcrossNodes(c10::intrusive_ptr<c10d::Backend> leaders);

// Gloo among all ranks of several nodes; sums are made node by node once it knows how.
class GlooOfNodes : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // `sums`: all-reduces sums of all ranks. On all ranks between two collectives.
  void SumBy(c10::intrusive_ptr<c10d::Backend> sums) { sums_ = std::move(sums); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Backend> sums_;  // Null: Gloo's own.
};

}  // namespace ddprun
