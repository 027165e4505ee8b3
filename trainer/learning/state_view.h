// A learner's tensors as a snapshot sees them, and back: where they are used, or copies in the
// host's memory of what lies apart.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <functional>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/learning/gradient_scale.h"
#include "trainer/learning/optimizer.h"
#include "trainer/learning/tensor_copies.h"
#include "trainer/learning/trained_model.h"

namespace ddprun {

class StateView {
 public:
  // All outlive it.
  StateView(const TrainedModel& model, const Optimizer& optimizer, const GradientScale& scale,
            bool apart)
      : model_(model), optimizer_(optimizer), scale_(scale), apart_(apart) {}

  // With the scale of the loss.
  std::vector<NamedTensor> OptimizerState() const;

  // `wait`: until the copy before this one has been read; may be empty.
  SnapshotView View(const std::function<void()>& wait);
  Result<void> CopyFrom(const Snapshot& snapshot);
  std::uint64_t Bytes() const;

  // Whether views are copies, which do not change with the tensors.
  bool IsCopied() const { return apart_; }

 private:
  const TrainedModel& model_;
  const Optimizer& optimizer_;
  const GradientScale& scale_;
  const bool apart_;
  HostMirror model_mirror_;
  HostMirror optimizer_mirror_;
};

}  // namespace ddprun
