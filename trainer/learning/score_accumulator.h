// Adds up losses and right answers of a rank's parts until somebody asks.
//
// On a GPU they stay there until then: the loop would wait for all that it told the GPU before.
// They are added up on a stream of their own beside the backward pass, which needs none of them.
// Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <optional>

#include "trainer/data/batch_slots.h"
#include "trainer/learning/score.h"

namespace ddprun {

class ScoreAccumulator {
 public:
  explicit ScoreAccumulator(at::Device device);

  // Of `batch`: the loss over its samples, each made of so many. On a GPU the current stream may
  // go on until Join; until then the tensors must live and keep what they hold.
  void Add(const at::Tensor& output, const at::Tensor& loss, const TaskBatch& batch,
           double losses_of_one_sample);
  // What the current stream is told from here on comes after what Add began.
  void Join();
  void AddSamples(std::size_t count) { score_.samples += count; }

  // Since the last call. Waits for the device.
  Score Take();
  // What was taken, back.
  void Restore(const Score& score) { score_ = score; }

 private:
  // Of a GPU.
  struct Beside {
    c10::Stream stream;
    c10::Event ready;  // What is added up is computed.
    c10::Event added;
  };

  const at::Device device_;
  Score score_;
  at::Tensor tally_;  // On a GPU: the loss, and how many were right.
  std::optional<Beside> beside_;
};

}  // namespace ddprun
