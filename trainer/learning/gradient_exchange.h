// Averages gradients over the ranks: while backward still runs by c10d's Reducer and its buckets,
// or after it, in the calling thread, where they are few and fit one bucket: c10d's buckets,
// dispatch and copies would then take longer than the work. The ranks of a node add theirs up in
// shared memory, in their order.
//
// The order in which gradients lie in buckets decides how sums are rounded with three ranks or
// more, so it can be read and given back. Included only by files that see libtorch anyway; what
// the transport throws passes through.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "trainer/checkpoint/snapshot.h"
#include "trainer/group/torch_group.h"
#include "trainer/options/learning_options.h"

namespace c10d {
class Reducer;
}

namespace ddprun {

class GradientExchange {
 public:
  // `recorded`: the order of an earlier run, ignored unless it has every parameter exactly once.
  GradientExchange(std::vector<at::Tensor> parameters, TorchGroup& group, const Buckets& recorded,
                   std::size_t bucket_bytes, Precision compression);
  ~GradientExchange();

  // Backward itself hands over each gradient. Otherwise AfterBackward takes them as they are then.
  bool during_backward() const { return reducer_ != nullptr; }
  // Around a backward that shall exchange what has been added up until then.
  void BeforeBackward();
  void AfterBackward();
  // Once the gradients have been used.
  void AfterStep();

  // Empty before the first step of a run without a record, and where there are none.
  const Buckets& buckets() const { return buckets_; }

 private:
  bool UsableHere(const Buckets& recorded) const;
  bool Small(std::size_t bucket_bytes) const;

  const std::vector<at::Tensor> parameters_;
  TorchGroup& group_;
  Buckets buckets_;
  std::unique_ptr<c10d::Reducer> reducer_;  // None: after backward.
};

}  // namespace ddprun
