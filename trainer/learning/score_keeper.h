// Adds up losses and right answers of a rank's parts until somebody asks.
//
// On a device they stay there until then: the loop would wait for all that it told the device
// before. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "trainer/data/batch_slots.h"
#include "trainer/learning/score.h"

namespace ddprun {

class ScoreKeeper {
 public:
  explicit ScoreKeeper(at::Device device);

  // Of `batch`: the loss over its samples, each made of so many.
  void Add(const at::Tensor& output, const at::Tensor& loss, const Batch& batch,
           double losses_of_one_sample);
  void AddSamples(std::size_t count) { score_.samples += count; }

  // Since the last call. Waits for the device.
  Score Take();
  // What was taken, back.
  void Restore(const Score& score) { score_ = score; }

 private:
  const bool on_cpu_;
  Score score_;
  at::Tensor tally_;  // On a device: the loss, and how many were right.
};

}  // namespace ddprun
