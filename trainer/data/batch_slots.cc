#include "trainer/data/batch_slots.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddprun {
namespace {

TaskBatch FirstOf(const TaskBatch& all, std::size_t count) {
  if (static_cast<std::int64_t>(count) == all.inputs[0].size(0)) {
    return all;
  }
  TaskBatch some;
  ForEachTensor(all, some, [count](const at::Tensor& from, at::Tensor& to) {
    to = from.narrow(0, 0, static_cast<std::int64_t>(count));
  });
  return some;
}

}  // namespace

BatchSlots::Room BatchSlots::MakeRoom(const Task& task, std::size_t most,
                                      const at::TensorOptions& options) {
  constexpr std::int64_t kAlignment = 256;  // Bytes, as CUDA aligns what it allocates.
  const auto samples = static_cast<std::int64_t>(most);
  std::int64_t bytes = 0;
  struct Part {
    at::Tensor& tensor;
    Shape shape;
    at::ScalarType type;
    std::int64_t at;
  };
  std::vector<Part> parts;
  const auto add = [&](at::Tensor& tensor, const Shape& shape, at::ScalarType type) {
    Shape all = shape;
    all.insert(all.begin(), samples);
    parts.push_back({tensor, all, type, bytes});
    const auto size = c10::multiply_integers(all) * static_cast<std::int64_t>(elementSize(type));
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  };
  Room room;
  room.batch.inputs.resize(task.inputs.size());
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    add(room.batch.inputs[i], task.inputs[i], at::kFloat);
  }
  if (task.classifies()) {
    add(room.batch.labels, {}, at::kLong);
  } else {
    add(room.batch.targets, task.target, at::kFloat);
  }
  room.memory = at::zeros({bytes}, options.dtype(at::kByte));
  for (const Part& part : parts) {
    const auto size =
        c10::multiply_integers(part.shape) * static_cast<std::int64_t>(elementSize(part.type));
    part.tensor = room.memory.narrow(0, part.at, size).view(part.type).view(part.shape);
  }
  return room;
}

BatchSlots::BatchSlots(const Task& task, at::Device device, bool apart, std::size_t part,
                       std::size_t evaluation)
    : device_(device), apart_(apart) {
  const bool gpu = device.is_cuda();
  for (std::size_t i = 0; i < kSlots; ++i) {
    const std::size_t most = i + 1 == kSlots ? evaluation : part;
    host_[i] = MakeRoom(task, most, at::TensorOptions().pinned_memory(gpu));
    if (apart) {
      there_[i].room = MakeRoom(task, most, at::TensorOptions().device(device));
    }
    if (gpu) {
      there_[i].arrived.emplace(device.type());
      there_[i].used.emplace(device.type());
    }
  }
  if (gpu) {
    copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

BatchRoom BatchSlots::room(std::size_t slot) const {
  const TaskBatch& batch = host_[slot].batch;
  BatchRoom room;
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    room.inputs[i] = batch.inputs[i].mutable_data_ptr<float>();
  }
  if (batch.labels.defined()) {
    room.labels = batch.labels.mutable_data_ptr<std::int64_t>();
  } else {
    room.targets = batch.targets.mutable_data_ptr<float>();
  }
  return room;
}

std::size_t BatchSlots::most(std::size_t slot) const {
  return static_cast<std::size_t>(host_[slot].batch.inputs[0].size(0));
}

TaskBatch BatchSlots::Take(std::size_t slot, std::size_t count) {
  const bool evaluation = slot + 1 == kSlots;
  if (!apart_) {
    place_ = evaluation ? place_ : slot;
    return FirstOf(host_[slot].batch, count);
  }
  taken_ = &there_[evaluation ? slot : next_];
  if (!evaluation) {
    place_ = next_;
    next_ = (next_ + 1) % kPlaces;
  }
  Copy(host_[slot], *taken_, count);
  return FirstOf(taken_->room.batch, count);
}

void BatchSlots::Copy(const Room& from, Place& place, std::size_t count) {
  const auto copy = [&] {
    if (static_cast<std::int64_t>(count) == from.batch.inputs[0].size(0)) {
      place.room.memory.copy_(from.memory, /*non_blocking=*/true);
      return;
    }
    TaskBatch target = FirstOf(place.room.batch, count);
    ForEachTensor(FirstOf(from.batch, count), target, [](const at::Tensor& one, at::Tensor& other) {
      other.copy_(one, /*non_blocking=*/true);
    });
  };
  if (!copies_) {
    copy();
    return;
  }
  const c10::Stream computing = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  place.used->block(*copies_);  // Nothing before its first use.
  {
    const c10::StreamGuard on(*copies_);
    copy();
  }
  place.arrived->record(*copies_);
  place.arrived->block(computing);
}

void BatchSlots::Done() {
  if (!copies_) {
    return;
  }
  taken_->used->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  taken_->arrived->synchronize();
}

}  // namespace ddprun
