// Averages of tensors that are small, as the gradients of a small model are, with nothing between
// the caller and the work: c10d's buckets, dispatch and copies would take longer than that.
//
// The ranks of a node add theirs up in shared memory. Of several nodes each then sends one message
// to the other one, or takes part in an all-reduce of Gloo if there are more. Computed in the
// calling thread; numbers are added in the order of ranks and nodes (with more than two nodes in
// Gloo's). Included only by files that see libtorch anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/group/shared_world.h"

namespace ddprun {

class SmallSums {
 public:
  // All tensors of a call together. Larger ones gain by an exchange while backward still runs.
  static constexpr std::size_t kMostBytes = std::size_t{512} << 10;

  struct Nodes {
    std::uint32_t count = 1;
    std::uint32_t own = 0;
    // Of the ranks that are rank 0 of a node's `world`, in the order of the nodes. Null on others.
    c10::intrusive_ptr<c10d::Backend> leaders;
  };

  // `world`: this node's ranks. `ranks`: of all nodes.
  SmallSums(std::shared_ptr<SharedWorld> world, std::uint32_t ranks, Nodes nodes);

  // Each number becomes its mean over the ranks. Throws what the transport throws.
  void Average(SharedWorld::Tensors tensors);

 private:
  Result<void> AddAcross(std::span<float> sum);

  const std::shared_ptr<SharedWorld> world_;
  const float factor_;
  const Nodes nodes_;
  SharedWorld::Across across_;    // None: there is one node.
  std::vector<float> from_peer_;  // Of two nodes.
};

}  // namespace ddprun
