// The memory of batches: filled on the host, learned from where the learner computes.
//
// On the CPU these are the same. On a device the host's memory is pinned, and a batch is copied
// beside what the device still computes; it has two places for batches, so that a copy waits only
// for the batch before the last one. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "trainer/task.h"

namespace ddprun {

// Of some samples; tensors that the task lacks are undefined.
struct TaskBatch {
  std::vector<at::Tensor> inputs;
  at::Tensor targets;
  at::Tensor labels;
};

// The tensors that both have, one by one; `other` is made to have as many.
template <class Call>
void ForEachTensor(const TaskBatch& one, TaskBatch& other, Call call) {
  other.inputs.resize(one.inputs.size());
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    call(one.inputs[i], other.inputs[i]);
  }
  if (one.labels.defined()) {
    call(one.labels, other.labels);
  }
  if (one.targets.defined()) {
    call(one.targets, other.targets);
  }
}

class BatchSlots {
 public:
  static constexpr std::size_t kSlots = 3;   // The last one is for evaluation.
  static constexpr std::size_t kPlaces = 2;  // Where batches to train on are learned from.

  // `apart`: batches are learned from elsewhere than where they are filled.
  BatchSlots(const Task& task, at::Device device, bool apart, std::size_t part,
             std::size_t evaluation);

  BatchRoom room(std::size_t slot) const;
  std::size_t most(std::size_t slot) const;
  // The first `count` samples, for what the current stream computes next.
  TaskBatch Take(std::size_t slot, std::size_t count);
  // Where the batch lies that was taken last, if it was one to train on.
  std::size_t place() const { return place_; }
  // To be called once that work is on the stream. Returns when room(slot) may be filled again.
  void Done();

 private:
  // A batch whose tensors lie behind each other in one piece of memory: one copy takes them all.
  struct Room {
    at::Tensor memory;
    TaskBatch batch;
  };
  struct Place {
    Room room;
    std::optional<c10::Event> arrived;
    std::optional<c10::Event> used;
  };
  static Room MakeRoom(const Task& task, std::size_t most, const at::TensorOptions& options);
  void Copy(const Room& from, Place& place, std::size_t count);

  const at::Device device_;
  const bool apart_;
  std::array<Room, kSlots> host_;
  std::array<Place, kSlots> there_;
  std::optional<c10::Stream> copies_;  // On a GPU.
  std::size_t place_ = 0;
  std::size_t next_ = 0;
  Place* taken_ = nullptr;
};

}  // namespace ddprun
