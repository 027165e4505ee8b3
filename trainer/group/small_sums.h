// Averages of tensors that are small, as the gradients of a small model are, with nothing between
// the caller and the work: c10d's buckets, dispatch and copies would take longer than that.
//
// The ranks of a node add theirs up in shared memory, several nodes as across_nodes.h says.
// Computed in the calling thread; numbers are added in the order of the ranks. Included only by
// files that see libtorch anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "trainer/group/shared_world.h"

namespace ddprun {

class SmallSums {
 public:
  // All tensors of a call together. Larger ones gain by an exchange while backward still runs.
  static constexpr std::size_t kMostBytes = std::size_t{512} << 10;

  // `world`: this node's ranks. `ranks`: of all nodes. `across`: none where there is one node.
  SmallSums(std::shared_ptr<SharedWorld> world, std::uint32_t ranks, SharedWorld::Across across);

  // Each number becomes its mean over the ranks. Throws what the transport throws.
  void Average(SharedWorld::Tensors tensors);

 private:
  const std::shared_ptr<SharedWorld> world_;
  const float factor_;
  const SharedWorld::Across across_;
};

}  // namespace ddprun
